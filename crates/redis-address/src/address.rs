//! [`RedisAddress`]: parsing and connecting.

use std::{collections::BTreeSet, ops::RangeInclusive};

use redis::{
    AsyncConnectionConfig, ConnectionInfo, RedisError, RedisResult, aio::MultiplexedConnection,
};

use crate::{
    AddressError, Masters, Node, cluster::Cluster, hosts::server, masters::ALL_SLOTS,
    options::Options, sentinel::Sentinels, transport::Transport,
};

/// Address of a server, of the master behind sentinels, or of a cluster.
#[derive(Debug)]
pub struct RedisAddress {
    route: Route,
    transport: Transport,
}

#[derive(Debug)]
enum Route {
    Server(ConnectionInfo),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl RedisAddress {
    /// Parses an address and reads the files that it names.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = url.split_once("://").ok_or(AddressError::Scheme)?;
        let (kind, of) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !["redis", "rediss"].contains(&kind) {
            return Err(AddressError::Scheme);
        }
        // The driver's own `#insecure` would give TLS without protection.
        if rest.contains('#') {
            return Err(AddressError::Malformed);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let tls = kind == "rediss";
        let options = Options::parse(query, tls, of == "sentinel")?;
        let route = match of {
            "" if !scheme.contains('+') => {
                Route::Server(server(&format!("{kind}://{authority}/{path}"))?)
            }
            "sentinel" => Route::Sentinels(Sentinels::parse(kind, authority, path, &options)?),
            "cluster" => Route::Cluster(Cluster::parse(kind, authority, path)?),
            _ => return Err(AddressError::Scheme),
        };
        let transport = Transport::new(tls, &options, route.any())?;
        Ok(Self { route, transport })
    }

    /// Connects to the server itself, to the current master according to the sentinels, or to every master of the
    /// cluster. A server named by a sentinel or a node must confirm that it is a master. `config` bounds the wait for
    /// each server; sentinels and nodes get half a second to answer.
    ///
    /// # Errors
    /// A server cannot be reached, or is not a master. The next attempt may succeed: it asks other sentinels or nodes
    /// first, or the failover has ended.
    pub async fn connect(&self, config: &AsyncConnectionConfig) -> RedisResult<Masters> {
        match &self.route {
            Route::Server(server) => {
                self.transport.open(server.clone(), config).await.map(Masters::one)
            }
            Route::Sentinels(sentinels) => {
                sentinels.connect(&self.transport, config).await.map(Masters::one)
            }
            Route::Cluster(cluster) => cluster.connect(&self.transport, config).await,
        }
    }
}

impl RedisAddress {
    /// Returns whether keys may move and masters may join.
    pub fn is_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    /// Returns each range of slots with the master that has it, ordered, for callers that connect to each master by
    /// itself. A slot without a master is in no range. A single server has all slots. `known` are masters of an earlier
    /// answer: the nodes of the address may all be away.
    ///
    /// # Errors
    /// No node of the cluster answers, or all of those that do are cut off from the others.
    pub async fn slots(
        &self,
        known: &BTreeSet<Node>,
    ) -> RedisResult<Vec<(RangeInclusive<u16>, Node)>> {
        match &self.route {
            Route::Server(_) | Route::Sentinels(_) => Ok(vec![(ALL_SLOTS, Node::the_only())]),
            Route::Cluster(cluster) => cluster.slots(&self.transport, known).await,
        }
    }

    /// Connects to one of the servers that [`RedisAddress::slots`] named, see [`RedisAddress::connect`].
    ///
    /// # Errors
    /// It cannot be reached, or is not a master.
    pub async fn connect_to(
        &self,
        node: &Node,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        match (&self.route, node.place()) {
            (Route::Cluster(cluster), Some((host, port))) => {
                cluster.open(&self.transport, config, host, port).await
            }
            _ => Ok(self.connect(config).await?.at(0)),
        }
    }

    /// Returns a connection to the master that the master at `index` named in an `ASK`, for keys of a slot that is
    /// moving there. It may have joined after `masters` were connected.
    ///
    /// # Errors
    /// The master cannot be reached, or the error is not an `ASK` of a cluster.
    pub async fn follow(
        &self,
        masters: &Masters,
        index: usize,
        ask: &RedisError,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let named = masters.named_by(index, ask);
        let (Some((host, port)), Route::Cluster(cluster)) = (named, &self.route) else {
            return Err(ask.clone());
        };
        match masters.find(host, port) {
            Some(connection) => Ok(connection),
            None => cluster.open(&self.transport, config, host, port).await,
        }
    }
}

impl Route {
    fn any(&self) -> &ConnectionInfo {
        match self {
            Self::Server(server) => server,
            Self::Sentinels(sentinels) => &sentinels.hosts.each[0],
            Self::Cluster(cluster) => &cluster.hosts.each[0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> AddressError {
        RedisAddress::parse(url).unwrap_err()
    }

    #[test]
    fn an_address_names_a_server_sentinels_or_a_cluster() {
        let hosts_of = |url| match RedisAddress::parse(url).unwrap().route {
            Route::Server(server) => vec![server.addr().to_string()],
            Route::Sentinels(Sentinels { hosts, .. }) | Route::Cluster(Cluster { hosts, .. }) => {
                hosts.each.iter().map(|host| host.addr().to_string()).collect()
            }
        };
        assert_eq!(hosts_of("redis://u:p@h"), ["h:6379"]);
        assert_eq!(hosts_of("rediss://[::1]:7/2"), ["::1:7"]);
        let sentinels = "redis+sentinel://u:p@a,b:7,[::1]/gate?sentinel-password=x";
        assert_eq!(hosts_of(sentinels), ["a:26379", "b:7", "::1:26379"]);
        assert_eq!(hosts_of("rediss+cluster://u:p@a,b:7/"), ["a:6379", "b:7"]);
    }

    #[test]
    fn an_address_that_cannot_work_is_refused_with_the_reason() {
        for url in ["mysql://h", "h:6379", "redis", "", "redis+://h", "redis+shards://h"] {
            assert_eq!(refused(url), AddressError::Scheme, "{url}");
        }
        for url in [
            "redis://",
            "redis://h:port",
            "rediss://h#insecure",
            "redis+sentinel://a,,b/gate",
            "redis+cluster://a/2",
        ] {
            assert_eq!(refused(url), AddressError::Malformed, "{url}");
        }
        for url in ["redis+sentinel://a", "rediss+sentinel://a,b/"] {
            assert_eq!(refused(url), AddressError::NoName, "{url}");
        }
        for url in ["redis://h?ssl-ca=/a", "redis://h?sentinel-user=a", "rediss://h?tls-ca=/a"] {
            assert!(matches!(refused(url), AddressError::Option { .. }), "{url}");
        }
        assert_eq!(refused("rediss://h?ssl-cert=/a"), AddressError::Incomplete);
        let error = refused("rediss://h?ssl-ca=/not/there.pem").to_string();
        assert!(error.contains("/not/there.pem"), "{error}");
        let error =
            refused(concat!("rediss://h?ssl-ca=", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(matches!(error, AddressError::Certificates { .. }), "{error}");
    }

    #[test]
    fn no_password_is_shown() {
        let url = "redis+sentinel://user:hunter2@a/gate?sentinel-password=hunter3";
        let shown = format!("{:?}", RedisAddress::parse(url).unwrap());
        assert!(shown.contains("user") && !shown.contains("hunter"), "{shown}");
        let shown = format!("{:?}", RedisAddress::parse("redis://user:hunter2@h").unwrap());
        assert!(!shown.contains("hunter"), "{shown}");
    }
}
