//! Processes that cannot start log the reason, name the setting, and exit with 1.

use std::{fs, net::TcpListener, time::Duration};

use devstack::{
    Endpoints, Options, Platform, PlatformOptions, Process, Servers, TestServers, project_root,
};
use mysql_store::{connect, migrate, verify};
use pipeline_tests::assert_no_panic;
use tokio::task::JoinSet;

/// Longest wait for the exit. Processes retry their servers for a while, as these may be starting too.
const END_MAX: Duration = Duration::from_secs(60);

/// Selects a process of a platform.
type Pick = fn(&mut Platform) -> &mut Process;

const API: Pick = |platform| &mut platform.apis[0];
const OUTBOX_RELAY: Pick = |platform| &mut platform.relay;
const CLAIM_LANDER: Pick = |platform| &mut platform.lander;
const CDC_TAILER: Pick = |platform| &mut platform.cdc_tailer;
const SYNC_CONSUMER: Pick = |platform| &mut platform.sync_consumer;
const EXPIRY_WORKER: Pick = |platform| &mut platform.expiry_worker;

/// Starts a process with one variable changed; it must exit with 1 after logging these sentences.
async fn ends_saying(
    endpoints: Endpoints,
    options: PlatformOptions,
    pick: Pick,
    variable: &str,
    value: &str,
    sentences: &[&str],
) {
    let mut platform = Platform::prepare(endpoints, options).unwrap();
    let process = pick(&mut platform);
    process.set_env(variable, value);
    process.spawn().unwrap();
    let name = process.name().to_owned();
    let status = process.wait_exit(END_MAX).await;
    let log = fs::read_to_string(process.log()).unwrap();
    let status =
        status.unwrap_or_else(|error| panic!("{name}, {variable}={value}: {error}\n{log}"));
    assert_eq!(status.code(), Some(1), "{name}, {variable}={value}: {log}");
    for sentence in sentences {
        assert!(log.contains(sentence), "{name}, {variable}={value} lacks {sentence:?}: {log}");
    }
    assert_no_panic(&log);
}

#[tokio::test]
async fn a_process_without_its_servers_or_settings_says_so_and_ends() {
    let scope = TestServers::shared().scope("boot");
    migrate::run(&scope.endpoints.database_url).await.unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let dead_mysql = "mysql://u:p@127.0.0.1:1/coupon";
    let dead_redis = "redis://127.0.0.1:1";
    let evicting = scope.endpoints.view_redis_url.clone();
    let never_evicting = scope.endpoints.gate_redis_url.clone();
    let unmigrated = scope.endpoints.url_of_database("mysql");
    let (_, server) = scope.endpoints.database_url.rsplit_once('@').unwrap();
    let stranger = format!("mysql://nobody:wrong@{server}");
    let wrong_password = scope.endpoints.database_url.replacen(":coupon@", ":wrong@", 1);
    assert_ne!(wrong_password, scope.endpoints.database_url);
    let cases: Vec<(Pick, &str, &str, &str)> = vec![
        (API, "DATABASE_URL", dead_mysql, "DATABASE_URL"),
        (API, "DATABASE_URL", "postgres://h/d", "mysql://"),
        (API, "DATABASE_URL", &unmigrated, "api --migrate"),
        (API, "DATABASE_URL", &stranger, "refuses us"),
        (API, "GATE_REDIS_URL", dead_redis, "GATE_REDIS_URL"),
        (API, "GATE_REDIS_URL", &evicting, "noeviction"),
        (API, "VIEW_REDIS_URL", dead_redis, "VIEW_REDIS_URL"),
        (API, "VIEW_REDIS_URL", &never_evicting, "does not evict keys (noeviction)"),
        (API, "LISTEN", &taken, "LISTEN"),
        (API, "ADMIN_LISTEN", &taken, "ADMIN_LISTEN"),
        (API, "JWT_SECRET", "short", "JWT_SECRET"),
        (API, "JWT_SECRET", "change-me-before-anyone-else-can-reach-this", "openssl rand"),
        (API, "OPERATOR_KEY", "", "OPERATOR_KEY"),
        (API, "OPERATOR_KEY", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "OPERATOR_KEY"),
        (API, "RECEIPT_SECRET", "short", "RECEIPT_SECRET must have at least 32 bytes"),
        (API, "GATE_COPIES", "0", "GATE_COPIES must be 1 to 8"),
        (API, "RECEIPT_SECRET", "short", "RECEIPT_SECRET must have at least"),
        (API, "GATE_COPIES", "9", "GATE_COPIES must be 1 to 8"),
        (API, "JWKS", "/nowhere/keys.json", "exclude each other"),
        (API, "JWKS", "http://issuer.example/keys.json", "https://"),
        (API, "JWT_LEEWAY_SECONDS", "301", "JWT_LEEWAY_SECONDS must be at most 300"),
        (API, "JWT_USER_CLAIM", "iat", "JWT_USER_CLAIM must name the claim with the user's id"),
        (API, "ALLOWED_ORIGINS", "*", "ALLOWED_ORIGINS"),
        (API, "TRUSTED_PROXIES", "proxy.example", "TRUSTED_PROXIES: `proxy.example` is no network"),
        // More files than any system lets a process open.
        (API, "CONNECTIONS_MAX", "4000000", "`ulimit -n 4000276`"),
        (API, "CONNECTIONS_MAX", "63", "CONNECTIONS_MAX must be 64 to"),
        (CDC_TAILER, "DATABASE_URL", dead_mysql, "DATABASE_URL"),
        (CDC_TAILER, "KAFKA_BROKERS", "127.0.0.1:1", "127.0.0.1:1"),
        (CDC_TAILER, "ADMIN_LISTEN", &taken, "ADMIN_LISTEN"),
        (SYNC_CONSUMER, "KAFKA_BROKERS", "127.0.0.1:1", "127.0.0.1:1"),
        // The consumer waits for a view that is away, but not for an address that can never be right.
        (SYNC_CONSUMER, "VIEW_REDIS_URL", "127.0.0.1:1", "VIEW_REDIS_URL"),
        (SYNC_CONSUMER, "VIEW_REDIS_URL", &never_evicting, "does not evict keys (noeviction)"),
        (SYNC_CONSUMER, "DATABASE_URL", &unmigrated, "api --migrate"),
        (EXPIRY_WORKER, "DATABASE_URL", dead_mysql, "DATABASE_URL"),
        (EXPIRY_WORKER, "DATABASE_URL", &unmigrated, "api --migrate"),
        (EXPIRY_WORKER, "KAFKA_BROKERS", "127.0.0.1:1", "127.0.0.1:1"),
    ];
    let denied = "Access denied";
    let denied = [API, OUTBOX_RELAY, CLAIM_LANDER, CDC_TAILER, SYNC_CONSUMER, EXPIRY_WORKER]
        .map(|pick| (pick, "DATABASE_URL", wrong_password.as_str(), denied));
    let cases = cases.into_iter().chain(of_the_queue(&unmigrated, &evicting)).chain(denied);
    let mut endings = JoinSet::new();
    for (number, (pick, variable, value, sentence)) in cases.enumerate() {
        let endpoints = scope.endpoints.clone();
        let mut options = PlatformOptions::of_test(&scope);
        options.dir = options.dir.join(number.to_string());
        let variable = variable.to_owned();
        let value = value.to_owned();
        let sentence = sentence.to_owned();
        endings.spawn(async move {
            ends_saying(endpoints, options, pick, &variable, &value, &[&sentence]).await;
        });
    }
    endings.join_all().await;
    let options = PlatformOptions::of_test(&scope).with_env("JWT_SECRET", "");
    let endpoints = scope.endpoints.clone();
    let keys = "/nowhere/keys.json";
    ends_saying(endpoints, options, API, "JWKS", keys, &["JWKS: /nowhere/keys.json"]).await;
}

/// The cases of the processes behind queued claims, on a database without our tables and a Redis that evicts.
fn of_the_queue<'a>(
    unmigrated: &'a str,
    evicting: &'a str,
) -> [(Pick, &'a str, &'a str, &'a str); 8] {
    let dead_mysql = "mysql://u:p@127.0.0.1:1/coupon";
    let dead_redis = "redis://127.0.0.1:1";
    [
        // The relay starts without MySQL, but not with an address that can never be right.
        (OUTBOX_RELAY, "DATABASE_URL", "mysql://u:p@127.0.0.1:1", "end it with /coupon"),
        (OUTBOX_RELAY, "DATABASE_URL", unmigrated, "api --migrate"),
        (OUTBOX_RELAY, "GATE_REDIS_URL", dead_redis, "GATE_REDIS_URL"),
        (OUTBOX_RELAY, "GATE_REDIS_URL", evicting, "noeviction"),
        (OUTBOX_RELAY, "KAFKA_BROKERS", "127.0.0.1:1", "127.0.0.1:1"),
        (CLAIM_LANDER, "DATABASE_URL", dead_mysql, "DATABASE_URL"),
        (CLAIM_LANDER, "DATABASE_URL", unmigrated, "api --migrate"),
        (CLAIM_LANDER, "KAFKA_BROKERS", "127.0.0.1:1", "127.0.0.1:1"),
    ]
}

#[tokio::test]
async fn the_tailer_refuses_a_binlog_that_would_lose_changes_and_names_the_statement() {
    let folder = project_root().join(".dev/test/wrong-binlog");
    let servers = Servers::start(&folder, &Options::default()).await.unwrap();
    let endpoints = servers.endpoints();
    migrate::run(&endpoints.database_url).await.unwrap();
    for (variable, wrong, right) in [
        ("binlog_row_image", "MINIMAL", "FULL"),
        ("binlog_row_metadata", "MINIMAL", "FULL"),
        ("binlog_format", "STATEMENT", "ROW"),
    ] {
        let set = async |value: &str| {
            let mut connection = connect::single(&endpoints.database_url).await.unwrap();
            let statement = format!("set global {variable} = '{value}'");
            verify::execute(&mut connection, &statement).await.unwrap();
        };
        set(wrong).await;
        let options = PlatformOptions::new(folder.join(variable));
        let way_out = format!("set global {variable} = '{right}'");
        let endpoints = endpoints.clone();
        ends_saying(endpoints, options, CDC_TAILER, "RUST_LOG", "info", &[&way_out]).await;
        set(right).await;
    }
    drop(servers);
    fs::remove_dir_all(folder).unwrap();
}
