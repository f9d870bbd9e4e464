//! [`Server`]: a connection to one server that reconnects, and that knows the run of its server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{
    AsyncConnectionConfig, ErrorKind, RedisResult, ServerErrorKind, aio::MultiplexedConnection,
};
use redis_address::Node;
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::{
    run::{Run, check_settings, read_run},
    slots::Slots,
};
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

/// One server, and a multiplexed connection to it that all callers share.
pub(crate) struct Server {
    slots: Arc<Slots>,
    node: Node,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// When the run was last read on the connection.
    read_at: Option<Instant>,
    failed_at: Option<Instant>,
    /// Rises with every connection, so that only the first failure on a connection drops it.
    generation: u64,
}

/// A connection, and the run of the server.
#[derive(Clone)]
struct Link {
    connection: MultiplexedConnection,
    run: Run,
    generation: u64,
}

/// A connection to a server that answered a moment ago, and the server's run.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) run: Run,
    generation: u64,
    server: Arc<Server>,
}

impl Server {
    pub(super) fn new(slots: Arc<Slots>, node: Node) -> Self {
        Self { slots, node, state: Mutex::default() }
    }

    /// Returns the connection; makes one if there is none.
    pub(crate) async fn live(self: &Arc<Self>) -> Result<Live, GateError> {
        let link = self.link().await.inspect_err(|_| self.slots.doubt())?;
        let Link { connection, run, generation } = link;
        Ok(Live { connection, run, generation, server: Arc::clone(self) })
    }

    async fn link(&self) -> Result<Link, GateError> {
        let mut state = self.state.lock().await;
        let is_cluster = self.slots.address.is_cluster();
        if let Some(link) = &state.link {
            if state.read_at.is_some_and(|at| at.elapsed() < RUN_READ_EVERY) {
                return Ok(link.clone());
            }
            let read = read_run(&mut link.connection.clone(), is_cluster).await;
            if read.is_ok_and(|run| run == link.run) {
                let link = link.clone();
                state.read_at = Some(Instant::now());
                return Ok(link);
            }
            // Another run, an unfit server, or no answer: a new connection finds out.
            warn!(gate.node = %self.node, gate.run = %link.run, "the gate's server is of another run, or away");
            state.link = None;
        }
        if state.failed_at.is_some_and(|at| at.elapsed() < CONNECT_PAUSE) {
            return Err(GateError::Unreachable { source: None });
        }
        match self.connect_once(state.generation + 1).await {
            Ok(link) => {
                info!(gate.node = %self.node, gate.run = %link.run, "connected to the gate");
                *state = State {
                    generation: link.generation,
                    link: Some(link.clone()),
                    read_at: Some(Instant::now()),
                    failed_at: None,
                };
                Ok(link)
            }
            Err(error) => {
                state.failed_at = Some(Instant::now());
                Err(error)
            }
        }
    }

    /// Drops a connection, if it is still the current one.
    async fn forget(&self, failed: &Live) {
        let mut state = self.state.lock().await;
        if state.link.as_ref().is_some_and(|link| link.generation == failed.generation) {
            warn!(gate.node = %self.node, gate.run = %failed.run, "lost the connection to the gate");
            state.link = None;
        }
    }

    async fn connect_once(&self, generation: u64) -> Result<Link, GateError> {
        let unreachable = |source| GateError::Unreachable { source: Some(source) };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(ANSWER_MAX));
        let address = &self.slots.address;
        let connected = address.connect_to(&self.node, &config).await;
        let mut connection = connected.map_err(unreachable)?;
        let run = read_run(&mut connection, address.is_cluster()).await?;
        if address.is_cluster() {
            check_settings(&mut connection).await?;
        }
        Ok(Link { run, connection, generation })
    }
}

/// A script that may write and does not. A server whose memory is full, whose disk refused its data, or that lacks
/// replicas refuses it before it runs, as it refuses `claim.lua`.
const MAY_WRITE: &str = "#!lua\nreturn 1";

impl Live {
    /// Checks that the server takes writes.
    pub(crate) async fn may_write(&self) -> Result<(), GateError> {
        let mut call = redis::cmd("EVAL");
        call.arg(MAY_WRITE).arg(0);
        let result = call.query_async(&mut self.connection.clone()).await;
        self.checked::<i64>("may_write", result).await.map(drop)
    }

    /// Distinguishes an error answered by Redis from a missing answer.
    pub(crate) async fn checked<T>(
        &self,
        call: &'static str,
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
                self.forget().await;
                Err(GateError::Unknown { call, source })
            }
            Err(source) => {
                // The server is no master, or not yet. The next connection finds the master.
                if let ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) =
                    source.kind()
                {
                    self.forget().await;
                }
                // A transaction is refused as a whole because one of its commands was.
                let is_aborted = source.kind() == ErrorKind::Server(ServerErrorKind::ExecAbort);
                let refused = GateError::Refused { call, source };
                if refused.is_of_slot() || is_aborted {
                    self.server.slots.doubt();
                }
                Err(refused)
            }
        }
    }

    /// Drops the connection after a call without an answer. The next call connects again and learns whether the run is
    /// still the same.
    pub(crate) async fn forget(&self) {
        self.server.forget(self).await;
        self.server.slots.doubt();
    }

    /// Returns whether one command can name the keys of any gates of this server. In a cluster they must be of one slot.
    pub(crate) fn spans_slots(&self) -> bool {
        !self.server.slots.address.is_cluster()
    }
}
