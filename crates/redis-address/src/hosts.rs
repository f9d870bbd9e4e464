//! Several servers that know the same, sentinels or the nodes of a cluster: one after the other is asked.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, RedisConnectionInfo, RedisError, RedisResult,
    aio::MultiplexedConnection,
};
use tokio::time::timeout;

use crate::{AddressError, address::server, transport::Transport};

/// How long one of them may take to connect and answer, before the next is asked: they have little else to
/// do, and while we wait nobody is served.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// At least one.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) each: Vec<ConnectionInfo>,
    /// Who is asked first.
    first: AtomicUsize,
}

/// What one of them answered.
pub(crate) struct Answer<T> {
    pub(crate) answer: T,
    /// Its place.
    pub(crate) by: usize,
}

/// Takes `user:password@hosts` apart.
pub(crate) fn login_of(authority: &str) -> Result<(RedisConnectionInfo, &str), AddressError> {
    match authority.rsplit_once('@') {
        Some((login, hosts)) => {
            // The host does not matter: the driver shall resolve what is escaped.
            let login = server(&format!("redis://{login}@hosts"))?;
            Ok((login.redis_settings().clone(), hosts))
        }
        None => Ok((RedisConnectionInfo::default(), authority)),
    }
}

impl Hosts {
    /// Takes `host:port,host` apart; `port` where none stands, `kind` the scheme of one server, `login` who
    /// we are to each.
    pub(crate) fn parse(
        kind: &str,
        hosts: &str,
        port: u16,
        login: &RedisConnectionInfo,
    ) -> Result<Self, AddressError> {
        let each = hosts.split(',').map(|host| {
            // Behind a `]` begins the port; before it are the colons of an IPv6 address.
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port { String::new() } else { format!(":{port}") };
            Ok(server(&format!("{kind}://{host}{port}"))?.set_redis_settings(login.clone()))
        });
        Ok(Self { each: each.collect::<Result<_, _>>()?, first: AtomicUsize::new(0) })
    }

    /// Asks one after the other until one has an answer; what each said if none has, headed by `problem`.
    pub(crate) async fn ask<T, F: Future<Output = RedisResult<T>>>(
        &self,
        transport: &Transport,
        problem: &'static str,
        question: impl Fn(MultiplexedConnection) -> F,
    ) -> RedisResult<Answer<T>> {
        let mut failures = Vec::new();
        let first = self.first.load(Ordering::Relaxed);
        // The wait for all of it is bounded already.
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

    /// What `by` said may be out of date: the next time another one is asked first.
    pub(crate) fn ask_another_than(&self, by: usize) {
        self.first.store(by + 1, Ordering::Relaxed);
    }
}
