//! One connection to the gate's Redis that knows which run of the server it speaks to.
//!
//! A Redis that restarts from an old file has silently forgotten admissions. So every new connection
//! asks for the run and replication ids before its first command and keeps them with it; every
//! script compares them with the gate's, and a gate of another run counts as not loaded.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use redis_address::RedisAddress;
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::GateError;

/// How long a connection may take: a local network's connect and one INFO, many times over.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// How long an answer may take. A gate script runs microseconds; a second is a server that hangs, and
/// the caller treats it as unknown.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long after a failed connect the next one waits; callers in between fail at once.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// One run of one Redis server: its run id and its replication id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run(String);

impl Run {
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

#[derive(Default)]
struct State {
    live: Option<Live>,
    failed_at: Option<Instant>,
    /// Rises with every connection, so that only the first failure on one drops it.
    generation: u64,
}

/// A connection, and the run it speaks to.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) run: Run,
    generation: u64,
}

impl GateRedis {
    /// Connects and checks that the server is fit to be a gate: a master that never evicts.
    ///
    /// # Errors
    /// The address is not one of a Redis, the server does not answer, or it is not fit.
    pub async fn connect(url: &str) -> Result<Self, GateError> {
        let address = RedisAddress::parse_one(url)
            .map_err(|error| GateError::Unfit(format!("GATE_REDIS_URL {error}")))?;
        let redis = Self { address: Arc::new(address), state: Arc::default() };
        redis.live().await?;
        Ok(redis)
    }

    /// The run that the current connection speaks to; connects if there is none.
    ///
    /// # Errors
    /// The server cannot be reached or is not fit.
    pub async fn run(&self) -> Result<Run, GateError> {
        Ok(self.live().await?.run)
    }

    pub(crate) async fn live(&self) -> Result<Live, GateError> {
        let mut state = self.state.lock().await;
        if let Some(live) = &state.live {
            return Ok(live.clone());
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

    /// Drops the connection after a call on it got no answer; the next call connects anew and learns
    /// whether it is still the same run.
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
        // The address is one server's.
        let mut connection = self.address.connect(&config).await.map_err(unreachable)?.at(0);
        let info: String =
            redis::cmd("INFO").query_async(&mut connection).await.map_err(unreachable)?;
        Ok(Live { run: fit_run(&info)?, connection, generation })
    }
}

/// Reads the run from INFO's text, if the server is fit to be a gate.
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
    let (run_id, replication_id) = (field("run_id"), field("master_replid"));
    if run_id.is_empty() || replication_id.is_empty() {
        return Err(GateError::Unfit("the gate's Redis does not tell its run id".to_owned()));
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
