//! Rebuilds of cold views: tasks of the process, at most one per user, which readers only join.
//!
//! A reader that leaves does not cancel the rebuild. Otherwise a client with a timeout shorter than a rebuild would
//! restart it for ever. A short list is read at once, in a reader's turn, and its readers wait for the view. A long
//! list is read in pieces on one of a few lanes of its own. Its readers are sent to MySQL, and no other rebuild waits
//! behind it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as Lock, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::UserId;
use metrics::counter;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, error::Elapsed, timeout_at},
};
use tracing::debug;

use crate::{
    Begun, Change, Nonce, Pieces as _, REBUILD_WINDOW, Truth, ViewError, ViewStore,
    reader::{damage::drop_if_damaged, metric::REBUILDS},
    store::rebuild::NONCE_YOUNG,
};

/// Largest number of running and waiting rebuilds. Beyond it, readers of cold views get pages from MySQL, which cost no
/// more than reading a short list for a rebuild.
const REBUILDS_MAX: usize = 256;

/// Number of long lists that are rebuilt at the same time. Each holds a connection to MySQL throughout, about a second
/// for 100,000 coupons. They share MySQL with all other reads, so more lanes would not finish sooner.
const LONG_MAX: usize = 2;

/// Result of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// The view is whole.
    Whole,
    /// Another process is rebuilding the view, or the view has a later generation.
    Elsewhere,
    /// The view was lost meanwhile: a key was evicted, or the view was dropped or taken over.
    Overtaken,
    /// The view cannot be reached.
    Failed,
    /// MySQL cannot be read.
    Unread,
    /// Too many rebuilds are under way.
    TooMany,
}

/// Progress of a rebuild.
#[derive(Debug, Clone, Copy)]
enum RebuildState {
    /// Waits for its turn.
    Waiting,
    /// Reads what may be a short list.
    Reading,
    /// Rebuilds a long list.
    Long,
    Ended(Rebuilt),
}

/// All rebuilds of a process.
pub(crate) struct Rebuilds<T>(Arc<Inner<T>>);

struct Inner<T> {
    store: ViewStore,
    truth: Arc<T>,
    /// Permits for bounded reads of MySQL, shared with readers of pages.
    turns: Arc<Semaphore>,
    lanes: Semaphore,
    under_way: Lock<HashMap<UserId, watch::Receiver<RebuildState>>>,
}

/// A rebuild that a reader joined.
pub(crate) struct Joined {
    state: watch::Receiver<RebuildState>,
    /// Whether this reader started it.
    pub(crate) is_first: bool,
}

impl Joined {
    /// Waits until the rebuild has ended, or returns `None` once it turns out to take long.
    ///
    /// # Errors
    /// The rebuild's turn did not come by the deadline. After that, the limits of the statements bound the wait.
    pub(crate) async fn soon(mut self, deadline: Instant) -> Result<Option<Rebuilt>, Elapsed> {
        let turn = self.state.wait_for(|state| !matches!(state, RebuildState::Waiting));
        drop(timeout_at(deadline, turn).await?);
        let soon =
            |state: &RebuildState| matches!(state, RebuildState::Long | RebuildState::Ended(_));
        Ok(match self.state.wait_for(soon).await.as_deref() {
            Ok(RebuildState::Ended(rebuilt)) => Some(*rebuilt),
            Ok(_) => None,
            // The task was stopped before it had a result.
            Err(_) => Some(Rebuilt::Failed),
        })
    }

    /// Waits until the rebuild has ended.
    pub(crate) async fn ended(mut self) -> Rebuilt {
        match self.state.wait_for(|state| matches!(state, RebuildState::Ended(_))).await.as_deref()
        {
            Ok(RebuildState::Ended(rebuilt)) => *rebuilt,
            Ok(_) | Err(_) => Rebuilt::Failed,
        }
    }
}

impl<T: Truth> Rebuilds<T> {
    pub(crate) fn new(store: ViewStore, truth: Arc<T>, turns: Arc<Semaphore>) -> Self {
        let lanes = Semaphore::new(LONG_MAX);
        Self(Arc::new(Inner { store, truth, turns, lanes, under_way: Lock::default() }))
    }

    /// Joins the user's rebuild, or starts one. Returns `None` if too many are under way.
    pub(crate) fn join(&self, user: UserId, now: DateTime<Utc>) -> Option<Joined> {
        let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = under_way.get(&user) {
            return Some(Joined { state: state.clone(), is_first: false });
        }
        if under_way.len() >= REBUILDS_MAX {
            return None;
        }
        let (sender, state) = watch::channel(RebuildState::Waiting);
        under_way.insert(user, state.clone());
        let entry = Entry { inner: Arc::clone(&self.0), user };
        let clock = Clock { began_at: now, began: Instant::now() };
        tokio::spawn(async move {
            let rebuilt = entry.inner.run(user, clock, &sender).await;
            // Before the result is published, so that a reader that receives it can start another rebuild.
            drop(entry);
            sender.send_replace(RebuildState::Ended(rebuilt));
        });
        Some(Joined { state, is_first: true })
    }
}

/// A user's entry among the rebuilds. Dropping it removes the entry, however the task ends.
struct Entry<T> {
    inner: Arc<Inner<T>>,
    user: UserId,
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let mut under_way = self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.user);
    }
}

/// The current time, for a task that outlives the request that supplied it.
#[derive(Clone, Copy)]
struct Clock {
    began_at: DateTime<Utc>,
    began: Instant,
}

impl Clock {
    fn now(&self) -> DateTime<Utc> {
        self.began_at + TimeDelta::from_std(self.began.elapsed()).unwrap_or_default()
    }
}

/// Why a rebuild ends early.
enum Stop {
    /// The view is already whole.
    IsWhole,
    Outcome(Rebuilt),
    View(ViewError),
    Truth(String),
}

impl From<ViewError> for Stop {
    fn from(error: ViewError) -> Self {
        Self::View(error)
    }
}

impl<T: Truth> Inner<T> {
    async fn run(
        &self,
        user: UserId,
        clock: Clock,
        state: &watch::Sender<RebuildState>,
    ) -> Rebuilt {
        let rebuilt = match self.rebuild(user, clock, state).await {
            Ok(()) => Rebuilt::Whole,
            Err(Stop::IsWhole) => return Rebuilt::Whole,
            Err(Stop::Outcome(rebuilt)) => rebuilt,
            Err(Stop::View(error)) => {
                drop_if_damaged(&self.store, user, &error).await;
                Rebuilt::Failed
            }
            Err(Stop::Truth(error)) => {
                debug!(user.id = %user, error, "view not rebuilt: its rows cannot be read");
                Rebuilt::Unread
            }
        };
        let result = match rebuilt {
            Rebuilt::Whole => "whole",
            Rebuilt::Overtaken => "overtaken",
            Rebuilt::Failed | Rebuilt::Unread => "failed",
            Rebuilt::Elsewhere | Rebuilt::TooMany => return rebuilt,
        };
        counter!(REBUILDS.name, "result" => result).increment(1);
        rebuilt
    }

    async fn rebuild(
        &self,
        user: UserId,
        clock: Clock,
        state: &watch::Sender<RebuildState>,
    ) -> Result<(), Stop> {
        let closed = |_| Stop::Outcome(Rebuilt::Failed);
        // Begin before waiting for a turn, so that an unresponsive view keeps no turn from others.
        let nonce = self.begin(user, clock).await?;
        let begun = Instant::now();
        let turn = self.turns.acquire().await.map_err(closed)?;
        state.send_replace(RebuildState::Reading);
        let since = clock.now() - window();
        let few = self.truth.few(user, since).await.map_err(|error| unread(&error))?;
        if let Some(rows) = few {
            self.load(user, nonce, &rows, clock).await?;
            return self.complete(user, nonce).await;
        }
        drop(turn);
        state.send_replace(RebuildState::Long);
        let _lane = self.lanes.acquire().await.map_err(closed)?;
        // While the nonce is young no other process begins a rebuild; later one may have.
        let nonce =
            if begun.elapsed() < NONCE_YOUNG { nonce } else { self.begin(user, clock).await? };
        let since = clock.now() - window();
        let mut pieces = self.truth.many(user, since).await.map_err(|error| unread(&error))?;
        while let Some(rows) = pieces.next().await.map_err(|error| unread(&error))? {
            self.load(user, nonce, &rows, clock).await?;
        }
        self.complete(user, nonce).await
    }

    async fn begin(&self, user: UserId, clock: Clock) -> Result<Nonce, Stop> {
        match self.store.begin(user, clock.now()).await? {
            Begun::Begun(nonce) => Ok(nonce),
            Begun::Complete => Err(Stop::IsWhole),
            Begun::Busy | Begun::Outdated => Err(Stop::Outcome(Rebuilt::Elsewhere)),
        }
    }

    async fn load(
        &self,
        user: UserId,
        nonce: Nonce,
        rows: &[Change],
        clock: Clock,
    ) -> Result<(), Stop> {
        goes_on(self.store.load(user, nonce, rows, clock.now()).await?)
    }

    async fn complete(&self, user: UserId, nonce: Nonce) -> Result<(), Stop> {
        goes_on(self.store.complete(user, nonce).await?)
    }
}

fn goes_on(is_ours: bool) -> Result<(), Stop> {
    if is_ours { Ok(()) } else { Err(Stop::Outcome(Rebuilt::Overtaken)) }
}

fn unread(error: &(impl std::error::Error + 'static)) -> Stop {
    Stop::Truth(runtime::report(error))
}

fn window() -> TimeDelta {
    TimeDelta::from_std(REBUILD_WINDOW).unwrap_or(TimeDelta::MAX)
}
