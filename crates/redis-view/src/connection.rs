//! Connections that come back, and that know which servers they speak to.
//!
//! A Redis that failed over or restarted may have lost writes without anybody noticing. So every
//! new connection asks for the run and replication id before its first command, finds out the view
//! generation that belongs to them, and hands that generation to every script for as long as the
//! connection lives. A command never runs on a connection whose generation is not known.
//!
//! In a cluster each slot's views have a generation of their own, that of their master. A dead master breaks
//! its connection, and one that has lost a slot says so: then the connections to all are given up.
//!
//! Others may learn of a generation sooner or later than we do, so a change that finds a view of another one
//! than ours drops it: whoever still trusted it, or trusts it by now, would miss that change.

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

/// Finds the view generations of slots whose masters have the given run ids: raised, by compare-and-set in
/// MySQL, where they are not the ones that the stored generations are for. A single server has all slots.
pub type GenerationsOf = Box<dyn Fn(Vec<Served>) -> GenerationsFuture + Send + Sync>;

/// What a [`GenerationsOf`] returns: a generation for each slot, in their order.
pub type GenerationsFuture = Pin<Box<dyn Future<Output = Generations> + Send>>;

/// Slots of one server, and its run and replication id.
pub type Served = (RangeInclusive<u16>, String);

/// See [`GenerationsFuture`].
pub type Generations = Result<Vec<(RangeInclusive<u16>, i64)>, Box<dyn Error + Send + Sync>>;

/// The reconnecting handle.
pub(crate) struct Connection {
    address: RedisAddress,
    generations_of: GenerationsOf,
    live: RwLock<Option<Live>>,
    /// Held while connecting, so that one caller connects and the others wait for it.
    attempts: Mutex<Attempts>,
}

/// Connections whose servers are known. Clones share them.
#[derive(Clone)]
pub(crate) struct Live {
    /// Where commands go.
    pub(crate) masters: Masters,
    /// The last slot of each range and the generation of its views, in their order.
    generations: Arc<[(u16, i64)]>,
    /// The slots of each server and its run id.
    served: Arc<[Served]>,
    /// Tells this connection from those before and after.
    serial: u64,
}

#[derive(Default)]
struct Attempts {
    made: u64,
    failed_in_a_row: u32,
    not_before: Option<Instant>,
}

impl Live {
    /// The generation of the views in the slot.
    pub(crate) fn generation(&self, slot: u16) -> i64 {
        let range = self.generations.partition_point(|(last, _)| *last < slot);
        // Connecting has seen to it that there is one.
        self.generations.get(range).map_or(0, |(_, generation)| *generation)
    }
}

impl Connection {
    pub(crate) fn new(url: &str, generations_of: GenerationsOf) -> Result<Self, ViewError> {
        let address = RedisAddress::parse(url).map_err(ViewError::Url)?;
        Ok(Self { address, generations_of, live: RwLock::new(None), attempts: Mutex::default() })
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
        if let Some(not_before) = attempts.not_before.filter(|instant| Instant::now() < *instant) {
            if attempts.failed_in_a_row > 0 {
                return Err(ViewError::NotConnected);
            }
            tokio::time::sleep_until(not_before).await;
        }
        attempts.made += 1;
        match self.connect(attempts.made).await {
            Ok(live) => {
                // While many slots move, each says so: the next connections are made for some at a time.
                let is_cluster = live.masters.is_cluster();
                let not_before = is_cluster.then(|| Instant::now() + RECONNECT_WAIT_MIN);
                *attempts = Attempts { made: attempts.made, failed_in_a_row: 0, not_before };
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

    /// Gives a connection up if `error` says that it, or its server, is no good any more, or not for the keys
    /// that were asked for: then the slots have moved.
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

    /// The slots of the current connection's servers with their run ids, and with their generations.
    pub(crate) fn served(&self) -> Option<(Vec<Served>, Live)> {
        let live = self.current()?;
        Some((live.served.to_vec(), live))
    }

    /// Looks whether every master still evicts what it has no room for.
    pub(crate) async fn fit(&self) -> Result<(), ViewError> {
        let live = self.live().await?;
        for mut master in live.masters.all() {
            let looked = fit(&mut master).await;
            if let Err(ViewError::Connect(source)) = &looked {
                self.judge(&live, source);
            }
            looked?;
        }
        Ok(())
    }

    /// Connects to whom the master at `place` has named in an `ASK`.
    pub(crate) async fn follow(
        &self,
        live: &Live,
        place: usize,
        ask: &RedisError,
    ) -> RedisResult<MultiplexedConnection> {
        self.address.follow(&live.masters, place, ask, &config()).await
    }

    async fn connect(&self, serial: u64) -> Result<Live, ViewError> {
        let masters = self.address.connect(&config()).await.map_err(ViewError::Connect)?;
        let mut runs = Vec::new();
        for mut master in masters.all() {
            runs.push(run_id(&mut master).await?);
            fit(&mut master).await?;
        }
        let served = masters.slots().map(|(slots, place)| (slots, runs[place].clone()));
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

/// A full server that does not evict takes no change any more, for as long as nobody gives it room.
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
