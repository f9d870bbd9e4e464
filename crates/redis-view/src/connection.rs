//! A connection that comes back, and that knows which server it speaks to.
//!
//! A Redis that failed over or restarted may have lost writes without anybody noticing. So every
//! new connection asks for the run and replication id before its first command, finds out the view
//! generation that belongs to them, and hands that generation to every script for as long as the
//! connection lives. A command never runs on a connection whose generation is not known.

use std::{
    error::Error,
    pin::Pin,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, ErrorKind, InfoDict, RedisError, ServerErrorKind,
    aio::MultiplexedConnection,
};
use redis_address::RedisAddress;
use tokio::{sync::Mutex, time::Instant};
use tracing::{info, warn};

use crate::ViewError;

/// How long connecting may take: far above a round trip, short enough for a reader to wait.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// After how long an unanswered command counts as unknown. A page takes well under a millisecond;
/// this covers a fork or a failover's start, and a reader can still turn to MySQL.
const RESPONSE_MAX: Duration = Duration::from_secs(1);

/// The first wait after a failed connect; it doubles up to [`RECONNECT_WAIT_MAX`]. Calls in between
/// fail at once instead of queueing up for a dead server.
const RECONNECT_WAIT_MIN: Duration = Duration::from_millis(50);

/// The longest wait between attempts: how late a server that is back is noticed, at most.
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Finds the view generation of the server with the given run id: raised, by compare-and-set in
/// MySQL, when it is not the server that the stored generation is for.
pub type GenerationOf = Box<dyn Fn(String) -> GenerationFuture + Send + Sync>;

/// What a [`GenerationOf`] returns.
pub type GenerationFuture =
    Pin<Box<dyn Future<Output = Result<i64, Box<dyn Error + Send + Sync>>> + Send>>;

/// The reconnecting handle.
pub(crate) struct Connection {
    address: RedisAddress,
    generation_of: GenerationOf,
    live: RwLock<Option<Live>>,
    /// Held while connecting, so that one caller connects and the others wait for it.
    attempts: Mutex<Attempts>,
}

/// A connection whose server is known.
#[derive(Clone)]
pub(crate) struct Live {
    /// Where commands go; clones share the socket.
    pub(crate) commands: MultiplexedConnection,
    /// The view generation of this server.
    pub(crate) generation: i64,
    /// Tells this connection from those before and after.
    serial: u64,
}

#[derive(Default)]
struct Attempts {
    made: u64,
    failed_in_a_row: u32,
    not_before: Option<Instant>,
}

impl Connection {
    pub(crate) fn new(url: &str, generation_of: GenerationOf) -> Result<Self, ViewError> {
        let address = RedisAddress::parse(url).map_err(ViewError::Url)?;
        Ok(Self { address, generation_of, live: RwLock::new(None), attempts: Mutex::default() })
    }

    /// The connection, made anew if it was lost.
    pub(crate) async fn live(&self) -> Result<Live, ViewError> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let mut attempts = self.attempts.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        if attempts.not_before.is_some_and(|instant| Instant::now() < instant) {
            return Err(ViewError::NotConnected);
        }
        attempts.made += 1;
        match self.connect(attempts.made).await {
            Ok(live) => {
                *attempts = Attempts { made: attempts.made, ..Attempts::default() };
                self.replace(Some(live.clone()));
                Ok(live)
            }
            Err(error) => {
                let doubled = 2u32.saturating_pow(attempts.failed_in_a_row);
                let wait = RECONNECT_WAIT_MIN.saturating_mul(doubled).min(RECONNECT_WAIT_MAX);
                attempts.failed_in_a_row += 1;
                attempts.not_before = Some(Instant::now() + wait);
                Err(error)
            }
        }
    }

    /// Gives a connection up if `error` says that it, or its server, is no good any more.
    pub(crate) fn judge(&self, live: &Live, error: &RedisError) {
        let refused = matches!(
            error.kind(),
            ErrorKind::Server(
                ServerErrorKind::ReadOnly
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::BusyLoading
            )
        );
        if refused || error.is_io_error() || error.is_unrecoverable_error() {
            self.give_up(live, &error.to_string());
        }
    }

    /// Gives a connection up; whoever needs the next one finds out the generation again.
    pub(crate) fn give_up(&self, live: &Live, reason: &str) {
        let mut current = self.live.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.serial == live.serial) {
            warn!(reason, "connection to the view's Redis given up");
            *current = None;
        }
    }

    async fn connect(&self, serial: u64) -> Result<Live, ViewError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(RESPONSE_MAX));
        let mut commands = self.address.connect(&config).await.map_err(ViewError::Connect)?;
        let run_id = run_id(&mut commands).await?;
        let generation =
            (self.generation_of)(run_id.clone()).await.map_err(ViewError::Generation)?;
        info!(redis.run_id = run_id, view.generation = generation, "connected to the view's Redis");
        Ok(Live { commands, generation, serial })
    }

    fn current(&self) -> Option<Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, live: Option<Live>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = live;
    }
}

/// Run and replication id: the first changes when the server restarts, the second when another one
/// becomes the master. A replica has none of its own: it follows, and may lack what its master
/// acknowledged.
async fn run_id(commands: &mut MultiplexedConnection) -> Result<String, ViewError> {
    let (server, replication): (InfoDict, InfoDict) = redis::pipe()
        .cmd("INFO")
        .arg("server")
        .cmd("INFO")
        .arg("replication")
        .query_async(commands)
        .await
        .map_err(ViewError::Connect)?;
    let run: Option<String> = server.get("run_id");
    let master: Option<String> = replication.get("master_replid");
    if replication.get("role").is_some_and(|role: String| role != "master") {
        return Err(ViewError::Replica);
    }
    match (run, master) {
        (Some(run), Some(master)) => Ok(format!("{run}/{master}")),
        _ => Err(ViewError::unreadable("INFO without run_id or master_replid")),
    }
}
