//! Rebuilds of cold views: tasks of the process, one for each user, in which readers only take part.
//!
//! A reader that leaves cancels nothing, or a client that waits for less than a rebuild takes would have it begun anew for
//! ever. What few coupons a user has are read at once, in the turn of a reader, and its readers wait for the view. A
//! long list goes piece by piece on one of a few lanes of its own: its readers are told so and turn to MySQL, and nobody
//! else waits behind it.

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
use tracing::{debug, error, warn};

use crate::{
    Begun, Change, Nonce, Pieces as _, REBUILD_WINDOW, Truth, ViewError, ViewStore,
    reader::DROPPED_VIEWS, rebuild::NONCE_YOUNG,
};

/// Rebuilds under way or waiting, at most: beyond this readers of cold views have MySQL, which answers a page as fast as it
/// reads what a view is made from.
const REBUILDS_MAX: usize = 256;

/// Long lists that are rebuilt at a time. Each keeps a connection to MySQL for as long as it takes, about a second for
/// 100,000 coupons; they share one with the reads of all others, so more of them would end no sooner.
const LONG_MAX: usize = 2;

/// Counter by `result`, one of [`REBUILD_RESULTS`]: rebuilds of views that are over.
pub const REBUILDS: &str = "coupon_view_rebuilds_total";

/// The values of `result`.
pub const REBUILD_RESULTS: [&str; 3] = ["whole", "overtaken", "failed"];

/// How a rebuild ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// The view is whole.
    Whole,
    /// Another process is at it, or knows of a later generation.
    Elsewhere,
    /// The view was lost on the way: a key was evicted, or somebody dropped it or took it over.
    Overtaken,
    /// The view cannot be reached.
    Failed,
    /// MySQL cannot be read.
    Unread,
    /// Too many rebuilds are under way.
    TooMany,
}

/// Where a rebuild is.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// It waits for its turn.
    Waiting,
    /// It reads what may be few coupons.
    Reading,
    /// The list is long.
    Long,
    Ended(Rebuilt),
}

/// The rebuilds of a process.
pub(crate) struct Rebuilds<T>(Arc<Inner<T>>);

struct Inner<T> {
    store: ViewStore,
    truth: Arc<T>,
    /// The turns of everybody who reads a bounded part of MySQL.
    turns: Arc<Semaphore>,
    lanes: Semaphore,
    under_way: Lock<HashMap<UserId, watch::Receiver<Stage>>>,
}

/// A rebuild that a reader takes part in.
pub(crate) struct Joined {
    stage: watch::Receiver<Stage>,
    /// Whether this reader began it.
    pub(crate) is_first: bool,
}

impl Joined {
    /// Waits until it has ended, or has turned out to take long: absent.
    ///
    /// # Errors
    /// Its turn has not come by the deadline. Once it has come, the statements' own limits bound the wait.
    pub(crate) async fn soon(mut self, deadline: Instant) -> Result<Option<Rebuilt>, Elapsed> {
        let turn = self.stage.wait_for(|stage| !matches!(stage, Stage::Waiting));
        drop(timeout_at(deadline, turn).await?);
        let soon = |stage: &Stage| matches!(stage, Stage::Long | Stage::Ended(_));
        Ok(match self.stage.wait_for(soon).await.as_deref() {
            Ok(Stage::Ended(rebuilt)) => Some(*rebuilt),
            Ok(_) => None,
            // Its task was ended before it had a result.
            Err(_) => Some(Rebuilt::Failed),
        })
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(mut self) -> Rebuilt {
        match self.stage.wait_for(|stage| matches!(stage, Stage::Ended(_))).await.as_deref() {
            Ok(Stage::Ended(rebuilt)) => *rebuilt,
            Ok(_) | Err(_) => Rebuilt::Failed,
        }
    }
}

impl<T: Truth> Rebuilds<T> {
    pub(crate) fn new(store: ViewStore, truth: Arc<T>, turns: Arc<Semaphore>) -> Self {
        let lanes = Semaphore::new(LONG_MAX);
        Self(Arc::new(Inner { store, truth, turns, lanes, under_way: Lock::default() }))
    }

    /// Takes part in the user's rebuild, and begins one if there is none; absent: too many are under way.
    pub(crate) fn join(&self, user: UserId, now: DateTime<Utc>) -> Option<Joined> {
        let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stage) = under_way.get(&user) {
            return Some(Joined { stage: stage.clone(), is_first: false });
        }
        if under_way.len() >= REBUILDS_MAX {
            return None;
        }
        let (sender, stage) = watch::channel(Stage::Waiting);
        under_way.insert(user, stage.clone());
        let place = Place { inner: Arc::clone(&self.0), user };
        let clock = Clock { began_at: now, began: Instant::now() };
        tokio::spawn(async move {
            let rebuilt = place.inner.run(user, clock, &sender).await;
            // Whoever is told that it has ended can begin another one.
            drop(place);
            sender.send_replace(Stage::Ended(rebuilt));
        });
        Some(Joined { stage, is_first: true })
    }
}

/// A user's place among the rebuilds; free again however its task ends.
struct Place<T> {
    inner: Arc<Inner<T>>,
    user: UserId,
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        let mut under_way = self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.user);
    }
}

/// The time, for a task that outlives the request which told it.
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

/// Why a rebuild ends before the view is whole.
enum Stop {
    /// Somebody has made it whole already.
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
    async fn run(&self, user: UserId, clock: Clock, stage: &watch::Sender<Stage>) -> Rebuilt {
        let rebuilt = match self.rebuild(user, clock, stage).await {
            Ok(()) => Rebuilt::Whole,
            Err(Stop::IsWhole) => return Rebuilt::Whole,
            Err(Stop::Outcome(rebuilt)) => rebuilt,
            Err(Stop::View(error)) => {
                note(&self.store, user, &error).await;
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
        counter!(REBUILDS, "result" => result).increment(1);
        rebuilt
    }

    async fn rebuild(
        &self,
        user: UserId,
        clock: Clock,
        stage: &watch::Sender<Stage>,
    ) -> Result<(), Stop> {
        let closed = |_| Stop::Outcome(Rebuilt::Failed);
        // First, so that nobody waits for the turn of one that waits for a view which does not answer.
        let (nonce, begun) = (self.begin(user, clock).await?, Instant::now());
        let turn = self.turns.acquire().await.map_err(closed)?;
        stage.send_replace(Stage::Reading);
        let since = clock.now() - window();
        let few = self.truth.few(user, since).await.map_err(|error| unread(&error))?;
        if let Some(rows) = few {
            self.load(user, nonce, &rows, clock).await?;
            return self.complete(user, nonce).await;
        }
        drop(turn);
        stage.send_replace(Stage::Long);
        let _lane = self.lanes.acquire().await.map_err(closed)?;
        // What it has begun is left alone for so long; after that another process may be at it.
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

fn unread(error: &impl std::error::Error) -> Stop {
    Stop::Truth(error.to_string())
}

fn window() -> TimeDelta {
    TimeDelta::from_std(REBUILD_WINDOW).unwrap_or(TimeDelta::MAX)
}

/// Notes that a user's view failed, and drops one that cannot be read.
pub(crate) async fn note(store: &ViewStore, user: UserId, error: &ViewError) {
    let Some((_, reason)) = error.damage() else {
        // An outage says so once for each connection, not once for each reader.
        debug!(user.id = %user, error = %error, "view not read: MySQL answers");
        return;
    };
    error!(user.id = %user, error = %error, "the user's view cannot be read: view dropped");
    counter!(DROPPED_VIEWS, "reason" => reason).increment(1);
    if let Err(error) = store.drop_view(user).await {
        warn!(user.id = %user, error = %error, "view not dropped");
    }
}
