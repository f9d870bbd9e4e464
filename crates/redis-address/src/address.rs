//! [`RedisAddress`]: taking it apart, and connecting.

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError,
    RedisResult, TlsCertificates, Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};

use crate::{AddressError, options::Options, sentinel::Sentinels};

/// Which server, and how to reach it.
#[derive(Debug)]
pub struct RedisAddress {
    route: Route,
    /// Absent: no TLS.
    tls: Option<TlsCertificates>,
}

#[derive(Debug)]
enum Route {
    Server(ConnectionInfo),
    Sentinels(Sentinels),
}

impl RedisAddress {
    /// Takes an address apart and reads the files that it names.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = url.split_once("://").ok_or(AddressError::Scheme)?;
        let (kind, sentinels) = match scheme {
            "redis" | "rediss" => (scheme, false),
            "redis+sentinel" => ("redis", true),
            "rediss+sentinel" => ("rediss", true),
            _ => return Err(AddressError::Scheme),
        };
        // The driver's own `#insecure` would be TLS that protects from nobody.
        if rest.contains('#') {
            return Err(AddressError::Malformed);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let options = Options::parse(query, kind == "rediss", sentinels)?;
        let route = if sentinels {
            Route::Sentinels(Sentinels::parse(kind, authority, path, &options)?)
        } else {
            Route::Server(server(&format!("{kind}://{authority}/{path}"))?)
        };
        let tls = (kind == "rediss").then(|| options.certificates()).transpose()?;
        let address = Self { route, tls };
        let any = match &address.route {
            Route::Server(server) => server,
            Route::Sentinels(sentinels) => &sentinels.each[0],
        };
        address
            .client(any.clone())
            .map_err(|error| AddressError::Certificates { reason: error.to_string() })?;
        Ok(address)
    }

    /// Connects: to the server itself, or to the one that the sentinels name as the master now, if it
    /// says the same of itself. `config` bounds the wait for the server; a sentinel is waited for half
    /// a second.
    ///
    /// # Errors
    /// It cannot be reached, or the next attempt may find what this one did not: sentinels that know a
    /// newer master, or a failover that has ended.
    pub async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let sentinels = match &self.route {
            Route::Server(server) => return self.open(server.clone(), config).await,
            Route::Sentinels(sentinels) => sentinels,
        };
        let found = sentinels.master(|sentinel| self.client(sentinel)).await?;
        let reached = self.open_master(found.server, config).await;
        if reached.is_err() {
            // It may have been left behind by the others.
            sentinels.ask_another_than(found.by);
        }
        reached
    }

    /// A sentinel that was left behind may name a server that is a replica by now.
    async fn open_master(
        &self,
        server: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let place = server.addr().to_string();
        let mut connection = self.open(server, config).await?;
        let role: Vec<Value> = redis::cmd("ROLE").query_async(&mut connection).await?;
        let role = role.into_iter().next().unwrap_or(Value::Nil);
        match redis::from_redis_value::<String>(role).as_deref() {
            Ok("master") => Ok(connection),
            _ => Err(RedisError::from((
                ErrorKind::Io,
                "the server that the sentinels name is not a master: a failover is under way",
                place,
            ))),
        }
    }

    async fn open(
        &self,
        server: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let place = server.addr().to_string();
        let client = self.client(server)?;
        let opened = client.get_multiplexed_async_connection_with_config(config).await;
        opened.map_err(|error| match (&self.tls, error.kind()) {
            (Some(_), ErrorKind::Client) => RedisError::from((
                ErrorKind::Client,
                "TLS failed: ssl-ca must be the CA of the server's certificate, and the certificate \
                 for the host of the address",
                format!("{place}: {error}"),
            )),
            _ => error,
        })
    }

    fn client(&self, server: ConnectionInfo) -> RedisResult<Client> {
        // A claim is one small command that somebody waits for.
        let server = server.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        match &self.tls {
            Some(certificates) => Client::build_with_tls(server, certificates.clone()),
            None => Client::open(server),
        }
    }
}

/// One server's parts; the driver resolves what is escaped.
pub(crate) fn server(url: &str) -> Result<ConnectionInfo, AddressError> {
    url.into_connection_info().map_err(|_| AddressError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> AddressError {
        RedisAddress::parse(url).unwrap_err()
    }

    #[test]
    fn an_address_leads_to_a_server_or_to_what_sentinels_name() {
        let places = |url| match RedisAddress::parse(url).unwrap().route {
            Route::Server(server) => vec![server.addr().to_string()],
            Route::Sentinels(sentinels) => {
                sentinels.each.iter().map(|sentinel| sentinel.addr().to_string()).collect()
            }
        };
        assert_eq!(places("redis://u:p@h"), ["h:6379"]);
        assert_eq!(places("rediss://[::1]:7/2"), ["::1:7"]);
        let sentinels = "redis+sentinel://u:p@a,b:7,[::1]/gate?sentinel-password=x";
        assert_eq!(places(sentinels), ["a:26379", "b:7", "::1:26379"]);
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        for url in ["mysql://h", "h:6379", "redis", ""] {
            assert_eq!(refused(url), AddressError::Scheme, "{url}");
        }
        for url in
            ["redis://", "redis://h:port", "rediss://h#insecure", "redis+sentinel://a,,b/gate"]
        {
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
