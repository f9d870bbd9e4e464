//! [`Transport`]: opens connections to single servers, with or without TLS.

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, Value,
    aio::MultiplexedConnection, io::tcp::TcpSettings,
};

use crate::{AddressError, options::Options};

/// The TLS settings of all servers of an address.
#[derive(Debug)]
pub(crate) struct Transport {
    /// `None` without TLS.
    tls: Option<TlsCertificates>,
}

impl Transport {
    /// Reads the files that `options` name, and checks that a client for `any` server of the address can be built with
    /// them.
    pub(crate) fn new(
        tls: bool,
        options: &Options,
        any: &ConnectionInfo,
    ) -> Result<Self, AddressError> {
        let transport = Self { tls: tls.then(|| options.certificates()).transpose()? };
        transport
            .client(any.clone())
            .map_err(|error| AddressError::Certificates { reason: error.to_string() })?;
        Ok(transport)
    }

    /// Connection settings for a server that another server named.
    pub(crate) fn server_at(
        &self,
        host: String,
        port: u16,
        login: &RedisConnectionInfo,
    ) -> RedisResult<ConnectionInfo> {
        let address = match &self.tls {
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            None => ConnectionAddr::Tcp(host, port),
        };
        Ok(address.into_connection_info()?.set_redis_settings(login.clone()))
    }

    pub(crate) async fn open(
        &self,
        server: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let address = server.addr().to_string();
        let client = self.client(server)?;
        let opened = client.get_multiplexed_async_connection_with_config(config).await;
        opened.map_err(|error| match (&self.tls, error.kind()) {
            (Some(_), ErrorKind::Client) => RedisError::from((
                ErrorKind::Client,
                "TLS failed: ssl-ca must be the CA of the server's certificate, and the certificate \
                 for the host of the address",
                format!("{address}: {error}"),
            )),
            _ => error,
        })
    }

    /// Like [`Transport::open`], but checks that the server is a master.
    pub(crate) async fn open_master(
        &self,
        server: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let address = server.addr().to_string();
        let mut connection = self.open(server, config).await?;
        let role: Vec<Value> = redis::cmd("ROLE").query_async(&mut connection).await?;
        let role = role.into_iter().next().unwrap_or(Value::Nil);
        match redis::from_redis_value::<String>(role).as_deref() {
            Ok("master") => Ok(connection),
            _ => Err(RedisError::from((
                ErrorKind::Io,
                "the server that was named is not a master: a failover is under way",
                address,
            ))),
        }
    }

    fn client(&self, server: ConnectionInfo) -> RedisResult<Client> {
        // A claim is one small command whose answer a client waits for.
        let server = server.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        match &self.tls {
            Some(certificates) => Client::build_with_tls(server, certificates.clone()),
            None => Client::open(server),
        }
    }
}
