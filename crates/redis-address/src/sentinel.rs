//! Sentinels: whom they name as the master.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult,
};
use tokio::time::timeout;

use crate::{AddressError, address::server, options::Options};

/// Where a sentinel listens if the address does not say.
const SENTINEL_PORT: u16 = 26_379;

/// How long one sentinel may take to connect and answer, before the next is asked: it does nothing else,
/// and while we wait nobody is admitted.
const SENTINEL_MAX: Duration = Duration::from_millis(500);

/// The sentinels of one master.
#[derive(Debug)]
pub(crate) struct Sentinels {
    /// What they call the master.
    name: String,
    /// At least one.
    pub(crate) each: Vec<ConnectionInfo>,
    /// Who we are to the master.
    login: RedisConnectionInfo,
    tls: bool,
    /// Who is asked first: the one that answered last.
    first: AtomicUsize,
}

/// What a sentinel answered.
pub(crate) struct Found {
    pub(crate) server: ConnectionInfo,
    /// Which sentinel.
    pub(crate) by: usize,
}

impl Sentinels {
    /// `kind` is the scheme without what says that these are sentinels.
    pub(crate) fn parse(
        kind: &str,
        authority: &str,
        name: &str,
        options: &Options,
    ) -> Result<Self, AddressError> {
        if name.is_empty() || name.contains('/') {
            return Err(AddressError::NoName);
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => {
                // The host does not matter: the driver shall resolve what is escaped.
                let login = server(&format!("redis://{login}@sentinels"))?;
                (login.redis_settings().clone(), hosts)
            }
            None => (RedisConnectionInfo::default(), authority),
        };
        let mut own = RedisConnectionInfo::default();
        if let Some(user) = &options.sentinel_user {
            own = own.set_username(user);
        }
        if let Some(password) = &options.sentinel_password {
            own = own.set_password(password);
        }
        let each = hosts.split(',').map(|host| {
            // Behind a `]` begins the port; before it are the colons of an IPv6 address.
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port { String::new() } else { format!(":{SENTINEL_PORT}") };
            let sentinel = server(&format!("{kind}://{host}{port}"))?;
            Ok(sentinel.set_redis_settings(own.clone()))
        });
        let each = each.collect::<Result<Vec<_>, _>>()?;
        let tls = kind == "rediss";
        Ok(Self { name: name.to_owned(), each, login, tls, first: AtomicUsize::new(0) })
    }

    /// Asks one after the other until one knows the master.
    pub(crate) async fn master(
        &self,
        client: impl Fn(ConnectionInfo) -> RedisResult<Client>,
    ) -> RedisResult<Found> {
        let mut failures = Vec::new();
        let first = self.first.load(Ordering::Relaxed);
        for turn in 0..self.each.len() {
            let by = (first + turn) % self.each.len();
            let sentinel = &self.each[by];
            let asked = async { self.ask(client(sentinel.clone())?).await };
            let failure = match timeout(SENTINEL_MAX, asked).await {
                Ok(Ok(Some(address))) => {
                    self.first.store(by, Ordering::Relaxed);
                    return Ok(Found { server: self.server_at(address)?, by });
                }
                Ok(Ok(None)) => "knows no master of this name".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("silent for {} ms", SENTINEL_MAX.as_millis()),
            };
            failures.push(format!("{}: {failure}", sentinel.addr()));
        }
        let failures = format!("{} ({})", self.name, failures.join("; "));
        Err(RedisError::from((ErrorKind::Io, "no sentinel says where the master is", failures)))
    }

    /// The next time another one is asked first.
    pub(crate) fn ask_another_than(&self, by: usize) {
        self.first.store(by + 1, Ordering::Relaxed);
    }

    async fn ask(&self, client: Client) -> RedisResult<Option<(String, u16)>> {
        // The wait for all of it is bounded already.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None);
        let mut sentinel = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&self.name);
        question.query_async(&mut sentinel).await
    }

    fn server_at(&self, (host, port): (String, u16)) -> RedisResult<ConnectionInfo> {
        let address = if self.tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        Ok(address.into_connection_info()?.set_redis_settings(self.login.clone()))
    }
}
