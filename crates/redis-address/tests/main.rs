//! Tests on real servers: Redis, sentinels and clusters, with and without TLS.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::net::SocketAddr;

use devstack::{Certificates, OwnCluster, OwnPair, OwnRedis, OwnSentinel, at_last, free_port};
use redis::{AsyncConnectionConfig, RedisResult, aio::MultiplexedConnection};
use redis_address::{RedisAddress, slot_of};

/// An address on which nothing listens.
const NOBODY: &str = "127.0.0.1:1";

async fn connect(address: &RedisAddress) -> RedisResult<MultiplexedConnection> {
    Ok(address.connect(&AsyncConnectionConfig::new()).await?.at(0))
}

async fn reach(url: &str) -> RedisResult<MultiplexedConnection> {
    connect(&RedisAddress::parse(url).unwrap()).await
}

async fn send(connection: &mut MultiplexedConnection, words: &[&str]) -> redis::Value {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]).query_async(connection).await.unwrap()
}

async fn text(connection: &mut MultiplexedConnection, words: &[&str]) -> String {
    redis::from_redis_value(send(connection, words).await).unwrap()
}

/// Returns the port that the server listens on, from its configuration.
async fn port_of(connection: &mut MultiplexedConnection) -> u16 {
    let (_, port): (String, u16) =
        redis::cmd("CONFIG").arg("GET").arg("port").query_async(connection).await.unwrap();
    port
}

fn strs(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

/// Starts a server that also listens with TLS; returns its TLS address.
async fn with_tls(name: &str, certificates: &Certificates) -> (OwnRedis, SocketAddr) {
    let port = free_port().unwrap();
    let settings = certificates.redis_settings(port);
    let server = OwnRedis::view(name, &strs(&settings)).await.unwrap();
    (server, SocketAddr::from(([127, 0, 0, 1], port)))
}

mod full {
    use super::*;

    #[tokio::test]
    async fn tls_reaches_a_server_of_the_named_ca_under_its_own_name_and_no_other() {
        let certificates = Certificates::make("address-tls-ca").unwrap();
        let other = Certificates::make("address-tls-other-ca").unwrap();
        let (server, tls) = with_tls("address-tls", &certificates).await;
        let ca = certificates.ca();
        let port = tls.port();
        let mut plain = reach(&server.url()).await.unwrap();
        send(&mut plain, &["CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2"]).await;

        for host in ["127.0.0.1", "localhost"] {
            let mut reached = reach(&format!("rediss://{host}:{port}?ssl-ca={ca}")).await.unwrap();
            assert_eq!(text(&mut reached, &["PING"]).await, "PONG");
        }
        let wrong = [
            format!("rediss://127.0.0.1:{port}?ssl-ca={}", other.ca()),
            format!("rediss://127.0.0.1:{port}"),
            format!("rediss://127.0.0.2:{port}?ssl-ca={ca}"),
        ];
        for url in wrong {
            let error = reach(&url).await.err().unwrap().to_string();
            assert!(error.contains("ssl-ca must be the CA of the server's certificate"), "{error}");
        }
        assert!(reach(&format!("redis://{tls}")).await.is_err());
    }

    #[tokio::test]
    async fn a_server_that_asks_for_a_certificate_gets_ours() {
        let certificates = Certificates::make("address-mutual-ca").unwrap();
        let (server, tls) = with_tls("address-mutual", &certificates).await;
        let mut plain = reach(&server.url()).await.unwrap();
        send(&mut plain, &["CONFIG", "SET", "tls-auth-clients", "yes"]).await;
        let nameless = format!("rediss://{tls}?ssl-ca={}", certificates.ca());
        assert!(reach(&nameless).await.is_err());
        let certificate = certificates.certificate();
        let key = certificates.key();
        let mut reached =
            reach(&format!("{nameless}&ssl-cert={certificate}&ssl-key={key}")).await.unwrap();
        assert_eq!(text(&mut reached, &["PING"]).await, "PONG");
    }

    #[tokio::test]
    async fn sentinels_lead_to_the_replica_that_took_a_dead_masters_place() {
        let mut pair = OwnPair::start("address", &[]).await.unwrap();
        let old = pair.master.server.address();
        let new = pair.replica.server.address();
        let sentinel = pair.sentinel.server.address();
        // An unreachable sentinel is skipped.
        let url = format!("redis+sentinel://{NOBODY},{sentinel}/pair");
        let address = RedisAddress::parse(&url).unwrap();
        assert_eq!(port_of(&mut connect(&address).await.unwrap()).await, old.port());
        pair.master.server.kill().unwrap();
        assert_eq!(port_of(&mut at_last(async || connect(&address).await).await).await, new.port());
    }

    #[tokio::test]
    async fn a_sentinel_that_was_left_behind_is_not_asked_twice_in_a_row() {
        let master = OwnRedis::view("address-ahead", &[]).await.unwrap();
        let replica =
            OwnRedis::view("address-behind", &["--replicaof", "127.0.0.1 1"]).await.unwrap();
        let ahead = master.server.address();
        let behind = replica.server.address();
        let behind = OwnSentinel::start("address-left-behind", "gate", behind, &[]).await.unwrap();
        let ahead = OwnSentinel::start("address-not-left", "gate", ahead, &[]).await.unwrap();
        let behind = behind.server.address();
        let ahead = ahead.server.address();
        let address =
            RedisAddress::parse(&format!("redis+sentinel://{behind},{ahead}/gate")).unwrap();
        let error = connect(&address).await.err().unwrap();
        assert!(error.is_io_error() && error.to_string().contains("is not a master"), "{error}");
        let mut reached = connect(&address).await.unwrap();
        assert_eq!(port_of(&mut reached).await, master.server.address().port());
    }

    #[tokio::test]
    async fn sentinels_that_know_nothing_are_named_with_what_they_said() {
        let master = OwnRedis::view("address-nameless", &[]).await.unwrap();
        let at = master.server.address();
        let sentinel = OwnSentinel::start("address-other-name", "view", at, &[]).await.unwrap();
        let sentinel = sentinel.server.address();
        let error = reach(&format!("redis+sentinel://:hunter2@{NOBODY},{sentinel}/gate")).await;
        let error = error.err().unwrap();
        let said = error.to_string();
        assert!(error.is_io_error(), "it may pass: {said}");
        assert!(said.contains(&format!("{sentinel}: knows no master of this name")), "{said}");
        assert!(said.contains(NOBODY) && !said.contains("hunter2"), "{said}");
    }

    #[tokio::test]
    async fn sentinels_and_master_may_both_want_tls_and_a_login_of_their_own() {
        let certificates = Certificates::make("address-all-ca").unwrap();
        let (server, tls) = with_tls("address-all", &certificates).await;
        let port = free_port().unwrap();
        let settings = certificates.redis_settings(port);
        let sentinel =
            OwnSentinel::start("address-all-sentinel", "gate", tls, &settings).await.unwrap();
        for (place, user) in
            [(server.server.address(), "app"), (sentinel.server.address(), "asker")]
        {
            let mut plain = reach(&format!("redis://{place}")).await.unwrap();
            let secret = format!(">{user} %");
            send(&mut plain, &["ACL", "SETUSER", user, "on", &secret, "~*", "&*", "+@all"]).await;
            send(&mut plain, &["ACL", "SETUSER", "default", "off"]).await;
        }
        let url = |sentinel: &str| {
            let ca = certificates.ca();
            format!("rediss+sentinel://app:app%20%25@localhost:{port}/gate?{sentinel}ssl-ca={ca}")
        };
        let mut reached =
            reach(&url("sentinel-user=asker&sentinel-password=asker+%25&")).await.unwrap();
        assert_eq!(text(&mut reached, &["ACL", "WHOAMI"]).await, "app");
        assert!(reach(&url("")).await.is_err());
    }

    #[tokio::test]
    async fn one_node_leads_to_all_masters_of_a_cluster_and_each_key_to_its_own() {
        let mut cluster = OwnCluster::start("address-cluster", &[]).await.unwrap();
        let addresses: Vec<_> = cluster.nodes.iter().map(|node| node.server.address()).collect();
        // An unreachable node is skipped, and a replica knows as much as a master.
        let url = format!("redis+cluster://{NOBODY},{}", addresses[5]);
        let address = RedisAddress::parse(&url).unwrap();
        let masters = address.connect(&AsyncConnectionConfig::new()).await.unwrap();
        let mut ports = Vec::new();
        for mut master in masters.all() {
            ports.push(port_of(&mut master).await);
        }
        ports.sort_unstable();
        let mut expected: Vec<_> = addresses[..3].iter().map(std::net::SocketAddr::port).collect();
        expected.sort_unstable();
        assert_eq!(ports, expected);
        for key in ["", "7", "p:{7}:list", "{}{7}", "{a}{7}", "}{7", "{{7}}"] {
            let mut master = masters.at(masters.index_of(slot_of(key)));
            assert_eq!(text(&mut master, &["SET", key, "1"]).await, "OK", "{key}");
        }
        cluster.nodes[0].server.kill().unwrap();
        let mut ports = at_last(async || {
            let masters = address.connect(&AsyncConnectionConfig::new()).await?;
            let mut ports = Vec::new();
            for mut master in masters.all() {
                ports.push(port_of(&mut master).await);
            }
            RedisResult::Ok(ports)
        })
        .await;
        ports.sort_unstable();
        assert!(ports.len() == 3 && !ports.contains(&addresses[0].port()), "{ports:?}");
    }

    #[tokio::test]
    async fn a_cluster_may_want_tls_and_a_login() {
        let certificates = Certificates::make("address-tls-cluster-ca").unwrap();
        let port = free_port().unwrap();
        let bus = free_port().unwrap().to_string();
        let mut settings = certificates.redis_settings(port);
        let cluster = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", &bus];
        settings.extend(cluster.map(str::to_owned));
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        let server = OwnRedis::view("address-tls-cluster", &settings).await.unwrap();
        let mut plain = reach(&server.url()).await.unwrap();
        let url = |login: &str| {
            format!("rediss+cluster://{login}localhost:{port}?ssl-ca={}", certificates.ca())
        };
        let error = reach(&url("")).await.err().unwrap();
        assert!(error.is_io_error() && error.to_string().contains("not whole"), "{error}");
        send(&mut plain, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        // It takes a moment until the node considers its cluster complete.
        let without_tls = server.url().replace("redis://", "redis+cluster://");
        let mut reached = at_last(async || reach(&without_tls).await).await;
        assert_eq!(port_of(&mut reached).await, server.server.address().port());
        send(&mut plain, &["ACL", "SETUSER", "app", "on", ">app", "~*", "&*", "+@all"]).await;
        send(&mut plain, &["ACL", "SETUSER", "default", "off"]).await;
        let mut reached = reach(&url("app:app@")).await.unwrap();
        assert_eq!(text(&mut reached, &["ACL", "WHOAMI"]).await, "app");
        assert!(reach(&url("")).await.is_err());
    }

    #[tokio::test]
    async fn a_server_that_is_no_cluster_says_so() {
        let server = OwnRedis::view("address-no-cluster", &[]).await.unwrap();
        let url = server.url().replace("redis://", "redis+cluster://");
        let error = reach(&url).await.err().unwrap().to_string();
        assert!(error.contains("cluster support disabled"), "{error}");
    }
}
