//! MySQL's part in memory, for readers, with means to delay it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use chrono::{DateTime, Utc};
use coupon::UserId;
use redis_view::{Change, Cursor, Pieces, Truth, ViewCoupon};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};

/// Number of rows in one read.
pub(crate) const PIECE: usize = 500;

#[derive(Debug, Error, PartialEq, Eq)]
#[error("mysql is down")]
pub(crate) struct Down;

/// Clones share one database.
#[derive(Clone, Default)]
pub(crate) struct MySql(Arc<Inner>);

#[derive(Default)]
struct Inner {
    rows: Mutex<HashMap<UserId, Vec<Change>>>,
    is_down: AtomicBool,
    /// Reads for rebuilds; those of them that are snapshots; reads running now, and their maximum.
    rebuilds: AtomicUsize,
    snapshots: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
    hold: Mutex<Option<Hold>>,
}

/// Makes pieces wait for permits.
#[derive(Clone)]
struct Hold {
    permits: Arc<Semaphore>,
    waiting: watch::Sender<usize>,
}

/// Delays the pieces of long lists until it is dropped.
pub(crate) struct DelayedPieces {
    mysql: MySql,
    hold: Hold,
}

impl MySql {
    /// Creates a database with these rows of a user.
    pub(crate) fn with(user: UserId, rows: Vec<Change>) -> Self {
        let mysql = Self::default();
        mysql.commit(user, rows);
        mysql
    }

    /// Replaces the user's rows.
    pub(crate) fn commit(&self, user: UserId, rows: Vec<Change>) {
        self.0.rows.lock().unwrap().insert(user, rows);
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Number of reads for rebuilds.
    pub(crate) fn rebuilds(&self) -> usize {
        self.0.rebuilds.load(Ordering::SeqCst)
    }

    /// Number of long lists that a rebuild began to read.
    pub(crate) fn snapshots(&self) -> usize {
        self.0.snapshots.load(Ordering::SeqCst)
    }

    /// Largest number of concurrent reads.
    pub(crate) fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    /// Delays every piece of a long list.
    pub(crate) fn hold(&self) -> DelayedPieces {
        let hold = Hold { permits: Arc::new(Semaphore::new(0)), waiting: watch::Sender::new(0) };
        *self.0.hold.lock().unwrap() = Some(hold.clone());
        DelayedPieces { mysql: self.clone(), hold }
    }

    fn rows(&self, user: UserId) -> Result<Vec<Change>, Down> {
        if self.0.is_down.load(Ordering::SeqCst) {
            return Err(Down);
        }
        Ok(self.0.rows.lock().unwrap().get(&user).cloned().unwrap_or_default())
    }

    /// Reads rows, with a delay.
    async fn read(&self, user: UserId) -> Result<Vec<Change>, Down> {
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        // Lets other reads begin.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        self.rows(user)
    }
}

impl DelayedPieces {
    /// Waits until `count` pieces have been requested.
    pub(crate) async fn waited_for(&self, count: usize) {
        self.hold.waiting.subscribe().wait_for(|waiting| *waiting >= count).await.unwrap();
    }

    /// Releases some pieces.
    pub(crate) fn let_go(&self, pieces: usize) {
        self.hold.permits.add_permits(pieces);
    }
}

impl Drop for DelayedPieces {
    fn drop(&mut self) {
        *self.mysql.0.hold.lock().unwrap() = None;
        self.hold.permits.close();
    }
}

impl Truth for MySql {
    type Error = Down;
    type Pieces = Snapshot;

    async fn listed(
        &self,
        user: UserId,
        behind: Option<Cursor>,
        count: usize,
    ) -> Result<Vec<ViewCoupon>, Down> {
        assert!(count <= PIECE + 1, "{count} rows for a page");
        let rows = self.read(user).await?;
        let mut listed: Vec<_> =
            rows.into_iter().filter(Change::is_listed).map(|row| row.coupon).collect();
        listed.sort_by_cached_key(|coupon| std::cmp::Reverse(Cursor::at(coupon)));
        listed.retain(|coupon| behind.is_none_or(|behind| Cursor::at(coupon) < behind));
        listed.truncate(count);
        Ok(listed)
    }

    async fn few(&self, user: UserId, _: DateTime<Utc>) -> Result<Option<Vec<Change>>, Down> {
        self.0.rebuilds.fetch_add(1, Ordering::SeqCst);
        Ok(Some(self.read(user).await?).filter(|rows| rows.len() <= PIECE))
    }

    async fn many(&self, user: UserId, _: DateTime<Utc>) -> Result<Snapshot, Down> {
        self.0.snapshots.fetch_add(1, Ordering::SeqCst);
        Ok(Snapshot { mysql: self.clone(), rows: self.rows(user)? })
    }
}

/// The unread rest of the rows at the beginning of the snapshot.
pub(crate) struct Snapshot {
    mysql: MySql,
    rows: Vec<Change>,
}

impl Pieces for Snapshot {
    type Error = Down;

    async fn next(&mut self) -> Result<Option<Vec<Change>>, Down> {
        let hold = self.mysql.0.hold.lock().unwrap().clone();
        if let Some(Hold { permits, waiting }) = hold {
            waiting.send_modify(|waiting| *waiting += 1);
            // After closing, it delays no piece any more.
            if let Ok(permit) = permits.acquire().await {
                permit.forget();
            }
        }
        if self.rows.is_empty() {
            return Ok(None);
        }
        let rest = self.rows.split_off(self.rows.len().min(PIECE));
        Ok(Some(std::mem::replace(&mut self.rows, rest)))
    }
}
