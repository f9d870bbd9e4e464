//! A connection to the gate's Redis that knows the run of its server.
//!
//! A Redis that restarts from an old file has lost admissions without an error. Therefore each new connection reads the
//! run id and the replication id before its first command. Every script compares them with the gate's, and a gate of
//! another run counts as not loaded.
//!
//! A server may also get another replication id while it runs, for example when its first replica joins. Older
//! connections would then disagree with newer ones for ever, and their processes would rebuild each other's gates. So a
//! connection reads the ids again every second.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{
    AsyncConnectionConfig, ErrorKind, RedisResult, ServerErrorKind, aio::MultiplexedConnection,
};
use redis_address::RedisAddress;
use tokio::sync::{Mutex, OnceCell};
use tracing::{info, warn};

use crate::GateError;

/// Time limit for connecting: many times that of a connect and one INFO on a local network.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// Time limit for an answer. A gate script runs for microseconds; after a second the server hangs, and the caller
/// treats the result as unknown.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Pause after a failed connect. Calls in between fail at once.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Interval between two reads of the run on one connection. A read takes a fraction of a millisecond.
const RUN_READ_EVERY: Duration = Duration::from_secs(1);

/// One run of a Redis server: its run id and its replication id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run(String);

impl Run {
    /// A run by its text, for parsers without a server.
    pub(crate) fn named(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The gate's Redis; clones share one multiplexed connection.
#[derive(Clone)]
pub struct GateRedis {
    address: Arc<RedisAddress>,
    state: Arc<Mutex<State>>,
}

/// Checks whether the gate's Redis answers, for the health of a process that can start without it.
pub struct GateProbe {
    url: String,
    redis: OnceCell<GateRedis>,
}

impl GateProbe {
    /// Makes a probe. It connects at the first check.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), redis: OnceCell::new() }
    }

    /// Checks once.
    ///
    /// # Errors
    /// The address is wrong, or the server does not answer or is not fit.
    pub async fn check(&self) -> Result<(), GateError> {
        let redis = self.redis.get_or_try_init(|| GateRedis::connect(&self.url)).await?;
        redis.run().await.map(drop)
    }
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    /// When the run was last read on the connection.
    read_at: Option<Instant>,
    failed_at: Option<Instant>,
    /// Rises with every connection, so that only the first failure on a connection drops it.
    generation: u64,
}

/// A connection and the server's run.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) run: Run,
    generation: u64,
}

impl GateRedis {
    /// Connects and checks that the server is fit for a gate: a master that never evicts.
    ///
    /// # Errors
    /// The address is not a Redis address, the server does not answer, or it is not fit.
    pub async fn connect(url: &str) -> Result<Self, GateError> {
        let address = RedisAddress::parse_one(url)
            .map_err(|error| GateError::Unfit(format!("GATE_REDIS_URL {error}")))?;
        let redis = Self { address: Arc::new(address), state: Arc::default() };
        redis.live().await?;
        Ok(redis)
    }

    /// Returns the server's run; connects if there is no connection.
    ///
    /// # Errors
    /// The server cannot be reached or is not fit.
    pub async fn run(&self) -> Result<Run, GateError> {
        Ok(self.live().await?.run)
    }

    pub(crate) async fn live(&self) -> Result<Live, GateError> {
        let mut state = self.state.lock().await;
        if let Some(live) = &state.live {
            if state.read_at.is_some_and(|at| at.elapsed() < RUN_READ_EVERY) {
                return Ok(live.clone());
            }
            if read_run(&mut live.connection.clone()).await.is_ok_and(|run| run == live.run) {
                let live = live.clone();
                state.read_at = Some(Instant::now());
                return Ok(live);
            }
            // Another run, an unfit server, or no answer: a new connection finds out.
            warn!(gate.run = %live.run, "the gate's server is of another run, or away");
            state.live = None;
        }
        if state.failed_at.is_some_and(|at| at.elapsed() < CONNECT_PAUSE) {
            return Err(GateError::Unreachable { source: None });
        }
        match self.connect_once(state.generation + 1).await {
            Ok(live) => {
                info!(gate.run = %live.run, "connected to the gate");
                *state = State {
                    generation: live.generation,
                    live: Some(live.clone()),
                    read_at: Some(Instant::now()),
                    failed_at: None,
                };
                Ok(live)
            }
            Err(error) => {
                state.failed_at = Some(Instant::now());
                Err(error)
            }
        }
    }

    /// Returns the same Redis with a connection of its own.
    pub(crate) fn apart(&self) -> Self {
        Self { address: Arc::clone(&self.address), state: Arc::default() }
    }

    /// Distinguishes an error answered by Redis from a missing answer.
    pub(crate) async fn checked<T>(
        &self,
        call: &'static str,
        live: &Live,
        result: RedisResult<T>,
    ) -> Result<T, GateError> {
        match result {
            Ok(value) => Ok(value),
            // An answer came, and it is not what the caller can read. A connection that sends no Redis protocol any more
            // fails the next call.
            Err(source)
                if matches!(source.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType) =>
            {
                Err(GateError::Unreadable { call })
            }
            Err(source) if source.is_io_error() || source.is_unrecoverable_error() => {
                self.forget(live).await;
                Err(GateError::Unknown { call, source })
            }
            Err(source) => {
                // The server is no master, or not yet. The next connection finds the master.
                if let ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) =
                    source.kind()
                {
                    self.forget(live).await;
                }
                Err(GateError::Refused { call, source })
            }
        }
    }

    /// Drops the connection after a call without an answer. The next call connects again and learns whether the run is
    /// still the same.
    pub(crate) async fn forget(&self, failed: &Live) {
        let mut state = self.state.lock().await;
        if state.live.as_ref().is_some_and(|live| live.generation == failed.generation) {
            warn!(gate.run = %failed.run, "lost the connection to the gate");
            state.live = None;
        }
    }

    async fn connect_once(&self, generation: u64) -> Result<Live, GateError> {
        let unreachable = |source| GateError::Unreachable { source: Some(source) };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(ANSWER_MAX));
        // The address names one server.
        let mut connection = self.address.connect(&config).await.map_err(unreachable)?.at(0);
        Ok(Live { run: read_run(&mut connection).await?, connection, generation })
    }
}

async fn read_run(connection: &mut MultiplexedConnection) -> Result<Run, GateError> {
    let unreachable = |source| GateError::Unreachable { source: Some(source) };
    let info: String = redis::cmd("INFO").query_async(connection).await.map_err(unreachable)?;
    fit_run(&info)
}

/// Reads the run from the text of INFO, if the server is fit for a gate.
fn fit_run(info: &str) -> Result<Run, GateError> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map_or("", str::trim)
    };
    if field("role") != "master" {
        return Err(GateError::Unfit(format!(
            "the gate's Redis is a {}: point GATE_REDIS_URL at the master",
            field("role")
        )));
    }
    if field("maxmemory_policy") != "noeviction" {
        return Err(GateError::Unfit(format!(
            "the gate's Redis evicts keys ({}): run `config set maxmemory-policy noeviction`",
            field("maxmemory_policy")
        )));
    }
    let run_id = field("run_id");
    let replication_id = field("master_replid");
    if run_id.is_empty() || replication_id.is_empty() {
        return Err(GateError::Unfit("the gate's Redis does not report its run id".to_owned()));
    }
    Ok(Run(format!("{run_id}/{replication_id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_a_master_that_never_evicts() {
        let info = "run_id:a\r\nrole:master\r\nmaster_replid:b\r\nmaxmemory_policy:noeviction\r\n";
        assert_eq!(fit_run(info).unwrap(), Run("a/b".to_owned()));
        for (from, to) in [("master\r", "slave\r"), ("noeviction", "allkeys-lru"), ("run_id", "x")]
        {
            assert!(matches!(fit_run(&info.replace(from, to)), Err(GateError::Unfit(_))), "{to}");
        }
    }
}
