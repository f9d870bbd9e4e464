//! Connections that reconnect, and that know which servers they are connected to.
//!
//! A Redis that failed over or restarted may have lost writes unnoticed. So each new connection reads the run and
//! replication id before its first command, determines the view generation that belongs to them, and passes that
//! generation to every script while the connection lasts. No command runs on a connection whose generation is not
//! known.
//!
//! In a cluster, the views of each slot have their own generation, according to their master. A dead master breaks its
//! connection, and a master that has lost a slot answers with a redirection. Either way, the connections to all masters
//! are given up.
//!
//! Processes learn of a new generation at different times. So a change that finds a view of another generation drops
//! it: a process that trusts that view, now or earlier, would miss the change.

use std::{
    error::Error,
    ops::RangeInclusive,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, ErrorKind, InfoDict, RedisError, RedisResult, ServerErrorKind,
    aio::MultiplexedConnection,
};
use redis_address::{Masters, RedisAddress};
use tokio::{sync::Mutex, time::Instant};
use tracing::{info, warn};

use crate::ViewError;

/// Connect timeout: far above a round trip, short enough for a reader to wait.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// Response timeout, after which a command's outcome is unknown. A page takes well under a millisecond; this covers a
/// fork or the start of a failover, and a reader can still turn to MySQL.
const RESPONSE_MAX: Duration = Duration::from_secs(1);

/// First wait after a failed connect. It doubles up to [`RECONNECT_WAIT_MAX`]. Calls in between fail at once instead of
/// queueing for a dead server.
const RECONNECT_WAIT_MIN: Duration = Duration::from_millis(50);

/// Longest wait between attempts, and so the longest delay until a recovered server is noticed.
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Returns the view generations of slots, given the run ids of their masters. Where a run id differs from the one
/// stored with the generation, the generation is raised by compare-and-set in MySQL. A single server has all slots.
pub type GenerationsOf = Box<dyn Fn(Vec<Served>) -> GenerationsFuture + Send + Sync>;

/// Future of a [`GenerationsOf`]: a generation for each slot range, ordered.
pub type GenerationsFuture = Pin<Box<dyn Future<Output = Generations> + Send>>;

/// A slot range of one server, and the server's run and replication id.
pub type Served = (RangeInclusive<u16>, String);

/// See [`GenerationsFuture`].
pub type Generations = Result<Vec<(RangeInclusive<u16>, i64)>, Box<dyn Error + Send + Sync>>;

/// A handle that reconnects.
pub(crate) struct Connection {
    address: RedisAddress,
    generations_of: GenerationsOf,
    live: RwLock<Option<Live>>,
    /// Locked while connecting, so that one caller connects and the others wait for it.
    attempts: Mutex<Attempts>,
}

/// Connections to servers whose generations are known. Clones share them.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) masters: Masters,
    /// Last slot of each range and the generation of its views, ordered.
    generations: Arc<[(u16, i64)]>,
    /// The slots of each server and its run id.
    served: Arc<[Served]>,
    /// Distinguishes this connection from earlier and later ones.
    serial: u64,
}

#[derive(Default)]
struct Attempts {
    made: u64,
    failed_in_a_row: u32,
    /// Why the last attempt failed.
    cause: String,
    not_before: Option<Instant>,
}

impl Live {
    /// Returns the generation of the views in the slot.
    pub(crate) fn generation(&self, slot: u16) -> i64 {
        let range = self.generations.partition_point(|(last, _)| *last < slot);
        // `connect` has ensured that there is one.
        self.generations.get(range).map_or(0, |(_, generation)| *generation)
    }
}

impl Connection {
    pub(crate) fn new(url: &str, generations_of: GenerationsOf) -> Result<Self, ViewError> {
        let address = RedisAddress::parse(url).map_err(ViewError::Url)?;
        Ok(Self { address, generations_of, live: RwLock::new(None), attempts: Mutex::default() })
    }

    /// Returns the connection, and reconnects if it was lost.
    pub(crate) async fn live(&self) -> Result<Live, ViewError> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let mut attempts = self.attempts.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        if let Some(not_before) = attempts.not_before.filter(|instant| Instant::now() < *instant) {
            if attempts.failed_in_a_row > 0 {
                return Err(ViewError::NotConnected(attempts.cause.clone()));
            }
            tokio::time::sleep_until(not_before).await;
        }
        attempts.made += 1;
        match self.connect(attempts.made).await {
            Ok(live) => {
                // Each slot that moves makes a caller give the connection up. The wait lets one reconnect cover several
                // slots.
                let is_cluster = live.masters.is_cluster();
                let not_before = is_cluster.then(|| Instant::now() + RECONNECT_WAIT_MIN);
                *attempts = Attempts { made: attempts.made, not_before, ..Attempts::default() };
                self.replace(Some(live.clone()));
                Ok(live)
            }
            Err(error) => {
                let doubled = 2u32.saturating_pow(attempts.failed_in_a_row);
                let wait = RECONNECT_WAIT_MIN.saturating_mul(doubled).min(RECONNECT_WAIT_MAX);
                attempts.failed_in_a_row += 1;
                attempts.cause = runtime::report(&error);
                attempts.not_before = Some(Instant::now() + wait);
                Err(error)
            }
        }
    }

    /// Gives the connection up if `error` shows that it or its server is unusable, or that slots have moved to another
    /// server.
    pub(crate) fn judge(&self, live: &Live, error: &RedisError) {
        let refused = matches!(
            error.kind(),
            ErrorKind::Server(
                ServerErrorKind::ReadOnly
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::BusyLoading
                    | ServerErrorKind::Moved
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::ExecAbort
            )
        );
        if refused || error.is_io_error() || error.is_unrecoverable_error() {
            self.give_up(live, &runtime::report(error));
        }
    }

    /// Gives a connection up. The next caller reconnects and determines the generations again.
    pub(crate) fn give_up(&self, live: &Live, reason: &str) {
        let mut current = self.live.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.serial == live.serial) {
            warn!(reason, "connection to the view's Redis given up");
            *current = None;
        }
    }

    /// Returns the slots of the connected servers with their run ids, and the connection with its generations.
    pub(crate) fn served(&self) -> Option<(Vec<Served>, Live)> {
        let live = self.current()?;
        Some((live.served.to_vec(), live))
    }

    /// Checks that every master still has an eviction policy. Reconnects if slots have moved meanwhile, so that their
    /// views get the generation of their new master even if they are not read.
    pub(crate) async fn fit(&self) -> Result<(), ViewError> {
        let live = self.live().await?;
        for mut master in live.masters.all() {
            let looked = fit(&mut master).await;
            if let Err(ViewError::Connect(source)) = &looked {
                self.judge(&live, source);
            }
            looked?;
        }
        if live.masters.have_moved().await {
            self.give_up(&live, "slots have moved to another server");
            self.live().await?;
        }
        Ok(())
    }

    /// Connects to the master that the master at `index` named in an `ASK`.
    pub(crate) async fn follow(
        &self,
        live: &Live,
        index: usize,
        ask: &RedisError,
    ) -> RedisResult<MultiplexedConnection> {
        self.address.follow(&live.masters, index, ask, &config()).await
    }

    async fn connect(&self, serial: u64) -> Result<Live, ViewError> {
        let masters = self.address.connect(&config()).await.map_err(ViewError::Connect)?;
        let mut runs = Vec::new();
        for mut master in masters.all() {
            runs.push(run_id(&mut master).await?);
            fit(&mut master).await?;
        }
        let served = masters.slots().map(|(slots, index)| (slots, runs[index].clone()));
        let served: Vec<_> = served.collect();
        let found = (self.generations_of)(served.clone()).await;
        let found = found.map_err(ViewError::Generation)?;
        let generations: Arc<[_]> =
            found.into_iter().map(|(slots, generation)| (*slots.end(), generation)).collect();
        let highest = generations.iter().map(|(_, generation)| *generation).max();
        info!(
            redis.masters = runs.len(),
            view.generation = highest,
            "connected to the view's Redis"
        );
        Ok(Live { masters, generations, served: served.into(), serial })
    }

    fn current(&self) -> Option<Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, live: Option<Live>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = live;
    }
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(Some(RESPONSE_MAX))
}

/// Refuses a server without eviction: once full, it would reject all changes until it gets more memory.
async fn fit(commands: &mut MultiplexedConnection) -> Result<(), ViewError> {
    let memory: RedisResult<InfoDict> =
        redis::cmd("INFO").arg("memory").query_async(commands).await;
    let policy: Option<String> = memory.map_err(ViewError::Connect)?.get("maxmemory_policy");
    match policy.as_deref() {
        Some("noeviction") => Err(ViewError::NoEviction),
        Some(_) => Ok(()),
        None => Err(ViewError::unreadable("INFO without maxmemory_policy")),
    }
}

/// Returns the run id, which changes when the server restarts, and the replication id, which changes when another
/// server becomes the master. Refuses a replica: it may lack writes that its master acknowledged.
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
