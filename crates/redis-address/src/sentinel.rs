//! Sentinels: asking for the current master.

use redis::{
    AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, RedisResult,
    aio::MultiplexedConnection,
};

use crate::{
    AddressError,
    hosts::{Hosts, login_of},
    options::Options,
    transport::Transport,
};

/// Port of a sentinel if the address names none.
const SENTINEL_PORT: u16 = 26_379;

/// The sentinels of one master.
#[derive(Debug)]
pub(crate) struct Sentinels {
    /// The sentinels' name for the master.
    name: String,
    pub(crate) hosts: Hosts,
    /// Login for the master.
    login: RedisConnectionInfo,
}

impl Sentinels {
    /// Parses the address. `kind` is the scheme without `+sentinel`.
    pub(crate) fn parse(
        kind: &str,
        authority: &str,
        name: &str,
        options: &Options,
    ) -> Result<Self, AddressError> {
        if name.is_empty() || name.contains('/') {
            return Err(AddressError::NoName);
        }
        let (login, hosts) = login_of(authority)?;
        let mut own = RedisConnectionInfo::default();
        if let Some(user) = &options.sentinel_user {
            own = own.set_username(user);
        }
        if let Some(password) = &options.sentinel_password {
            own = own.set_password(password);
        }
        let hosts = Hosts::parse(kind, hosts, SENTINEL_PORT, &own)?;
        Ok(Self { name: name.to_owned(), hosts, login })
    }

    /// Connects to the server that the sentinels name, and checks that it is the master.
    pub(crate) async fn connect(
        &self,
        transport: &Transport,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let problem = "no sentinel says where the master is";
        let named = |sentinel| self.named_by(sentinel);
        let found = self.hosts.ask(transport, problem, named).await?;
        let (host, port) = found.answer;
        let server = transport.server_at(host, port, &self.login)?;
        // A sentinel with outdated knowledge may name a server that has become a replica.
        let reached = transport.open_master(server, config).await;
        if reached.is_err() {
            self.hosts.ask_another_than(found.by);
        }
        reached
    }

    async fn named_by(&self, mut sentinel: MultiplexedConnection) -> RedisResult<(String, u16)> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&self.name);
        let named: Option<(String, u16)> = question.query_async(&mut sentinel).await?;
        let problem = "knows no master of this name";
        named.ok_or_else(|| RedisError::from((ErrorKind::Io, problem, self.name.clone())))
    }
}
