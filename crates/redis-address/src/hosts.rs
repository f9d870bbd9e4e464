//! Several servers that can answer the same query, sentinels or cluster nodes, which are asked in turn.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, RedisResult, aio::MultiplexedConnection,
};
use tokio::time::timeout;

use crate::{AddressError, transport::Transport};

/// Time that one server has to connect and answer before the next is asked. These servers have little other work, and
/// no request is served meanwhile.
pub(crate) const ANSWER_MAX: Duration = Duration::from_millis(500);

/// A list of at least one server.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) each: Vec<ConnectionInfo>,
    /// Index of the server that is asked first.
    first: AtomicUsize,
}

pub(crate) struct Answer<T> {
    pub(crate) answer: T,
    /// Index of the server that answered.
    pub(crate) by: usize,
}

/// Parses the address of one server. The driver resolves escapes.
pub(crate) fn server(url: &str) -> Result<ConnectionInfo, AddressError> {
    url.into_connection_info().map_err(|_| AddressError::Malformed)
}

/// Splits `user:password@hosts`.
pub(crate) fn login_of(authority: &str) -> Result<(RedisConnectionInfo, &str), AddressError> {
    match authority.rsplit_once('@') {
        Some((login, hosts)) => {
            // A made-up host, so that the driver resolves the escapes in the login.
            let login = server(&format!("redis://{login}@hosts"))?;
            Ok((login.redis_settings().clone(), hosts))
        }
        None => Ok((RedisConnectionInfo::default(), authority)),
    }
}

impl Hosts {
    /// Parses `host:port,host`. `port` is the default, `kind` the scheme of a single server, `login` the login for
    /// each.
    pub(crate) fn parse(
        kind: &str,
        hosts: &str,
        port: u16,
        login: &RedisConnectionInfo,
    ) -> Result<Self, AddressError> {
        let each = hosts.split(',').map(|host| {
            // The port follows a `]`; the colons before it belong to an IPv6 address.
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port { String::new() } else { format!(":{port}") };
            Ok(server(&format!("{kind}://{host}{port}"))?.set_redis_settings(login.clone()))
        });
        Ok(Self { each: each.collect::<Result<_, _>>()?, first: AtomicUsize::new(0) })
    }

    /// Asks one server after the other until one answers. If none does, the error starts with `problem` and lists the
    /// failure of each.
    pub(crate) async fn ask<T, F: Future<Output = RedisResult<T>>>(
        &self,
        transport: &Transport,
        problem: &'static str,
        question: impl Fn(MultiplexedConnection) -> F,
    ) -> RedisResult<Answer<T>> {
        let mut failures = Vec::new();
        let first = self.first.load(Ordering::Relaxed);
        // The timeout below already covers connecting.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None);
        for turn in 0..self.each.len() {
            let by = (first + turn) % self.each.len();
            let host = &self.each[by];
            let asked = async {
                let connection = transport.open(host.clone(), &config).await?;
                question(connection).await
            };
            let failure = match timeout(ANSWER_MAX, asked).await {
                Ok(Ok(answer)) => {
                    self.first.store(by, Ordering::Relaxed);
                    return Ok(Answer { answer, by });
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("silent for {} ms", ANSWER_MAX.as_millis()),
            };
            failures.push(format!("{}: {failure}", host.addr()));
        }
        Err(RedisError::from((ErrorKind::Io, problem, failures.join("; "))))
    }

    /// Makes the next query go to another server first, because the answer of `by` may be out of date.
    pub(crate) fn ask_another_than(&self, by: usize) {
        self.first.store(by + 1, Ordering::Relaxed);
    }
}
