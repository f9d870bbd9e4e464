//! "My coupons": from the view, and where that cannot be trusted from MySQL, rebuilding the view on
//! the way.
//!
//! Rebuilds are in single flight for each user and bounded for the process: a view server that was
//! emptied makes every user cold at once, and MySQL must not feel it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as Lock, PoisonError},
    time::Duration,
};

use coupon::UserId;
use metrics::counter;
use thiserror::Error;
use tokio::sync::{Mutex, Semaphore};
use tracing::{debug, error, warn};

use crate::{Begun, Change, Page, PageAnswer, PageRequest, ViewError, ViewStore};

/// Reads of MySQL at a time, for rebuilds and for answers that the view cannot give: with a few
/// milliseconds each, thousands of users a second, on a part of the pool's connections.
const READS_MAX: usize = 8;

/// How long a reader waits for its turn; then the caller sheds the request.
const TURN_MAX: Duration = Duration::from_secs(2);

/// Counter by `reason`, one of [`DROP_REASONS`]: views that a reader could not read and has dropped.
pub const DROPPED_VIEWS: &str = "coupon_dropped_views_total";

/// The values of `reason`.
pub const DROP_REASONS: [&str; 2] = ["unreadable", "wrong_type"];

/// Answers "my coupons".
pub struct ViewReader {
    store: ViewStore,
    reads: Semaphore,
    /// The users whose coupons are being read from MySQL, each with the lock that its other readers
    /// wait for.
    flights: Lock<HashMap<UserId, Arc<Mutex<()>>>>,
}

/// A page, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MyCoupons {
    /// The page.
    pub page: Page,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a page came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The view.
    View,
    /// MySQL, and the view was rebuilt from the same rows.
    Rebuild,
    /// MySQL: the view did not know the caller's own claim yet, is under another process's rebuild,
    /// or cannot be reached.
    Truth,
}

impl Origin {
    /// One word for it, for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Rebuild => "rebuild",
            Self::Truth => "truth",
        }
    }
}

/// Why there is no page.
#[derive(Debug, Error)]
pub enum MyCouponsError<E> {
    /// The rows could not be read; the caller's own error.
    #[error("the user's coupons could not be read")]
    Rows(#[source] E),
    /// Too many readers wait for MySQL already: shed the request.
    #[error("too many readers wait for their coupons")]
    Overloaded,
}

impl ViewReader {
    /// A reader of `store`.
    pub fn new(store: ViewStore) -> Self {
        Self { store, reads: Semaphore::new(READS_MAX), flights: Lock::default() }
    }

    /// The view behind it.
    pub fn store(&self) -> &ViewStore {
        &self.store
    }

    /// A page of the user's usable coupons.
    ///
    /// `rows` reads the user's unused coupons, and every one changed within
    /// [`crate::REBUILD_WINDOW`], whatever its status; it is called at most once, and only where the
    /// view cannot answer. An unreachable view is no error: MySQL answers.
    ///
    /// # Errors
    /// The rows cannot be read, or too many readers wait already.
    pub async fn my_coupons<F, R, E>(
        &self,
        user: UserId,
        request: &PageRequest,
        rows: F,
    ) -> Result<MyCoupons, MyCouponsError<E>>
    where
        F: FnOnce() -> R,
        R: Future<Output = Result<Vec<Change>, E>>,
    {
        if let PageAnswer::Page(page) = self.ask(user, request).await {
            return Ok(MyCoupons { page, origin: Origin::View });
        }
        let flight = Flight::join(self, user);
        let turn = async { (flight.lock.lock().await, self.reads.acquire().await) };
        let Ok((_alone, Ok(_permit))) = tokio::time::timeout(TURN_MAX, turn).await else {
            return Err(MyCouponsError::Overloaded);
        };
        self.alone(user, request, rows).await
    }

    /// The part that only one reader of a user is in.
    async fn alone<F, R, E>(
        &self,
        user: UserId,
        request: &PageRequest,
        rows: F,
    ) -> Result<MyCoupons, MyCouponsError<E>>
    where
        F: FnOnce() -> R,
        R: Future<Output = Result<Vec<Change>, E>>,
    {
        // The reader before may have rebuilt the view.
        let begun = match self.ask(user, request).await {
            PageAnswer::Page(page) => return Ok(MyCoupons { page, origin: Origin::View }),
            PageAnswer::Unknown => None,
            PageAnswer::Cold => self.begin(user, request).await,
        };
        let rows = rows().await.map_err(MyCouponsError::Rows)?;
        let rebuilt = match begun {
            Some(Begun::Begun(nonce)) => self.fill(user, nonce, &rows).await,
            Some(Begun::Busy | Begun::Complete | Begun::Outdated) | None => false,
        };
        let origin = if rebuilt { Origin::Rebuild } else { Origin::Truth };
        Ok(MyCoupons { page: Page::of_rows(&rows, request), origin })
    }

    /// The view's answer; a view that fails is as good as none.
    async fn ask(&self, user: UserId, request: &PageRequest) -> PageAnswer {
        match self.store.page(user, request).await {
            Ok(answer) => answer,
            Err(error) => {
                self.note(user, &error).await;
                PageAnswer::Cold
            }
        }
    }

    async fn begin(&self, user: UserId, request: &PageRequest) -> Option<Begun> {
        match self.store.begin(user, request.now).await {
            Ok(begun) => Some(begun),
            Err(error) => {
                self.note(user, &error).await;
                None
            }
        }
    }

    async fn fill(&self, user: UserId, nonce: crate::Nonce, rows: &[Change]) -> bool {
        let filled = async {
            let loaded = self.store.load(user, nonce, rows).await?;
            Ok(loaded && self.store.complete(user, nonce).await?)
        };
        match filled.await {
            Ok(done) => done,
            Err(error) => {
                self.note(user, &error).await;
                false
            }
        }
    }

    async fn note(&self, user: UserId, error: &ViewError) {
        let Some((_, reason)) = error.damage() else {
            // An outage says so once for each connection, not once for each reader.
            debug!(user.id = %user, error = %error, "view not read: MySQL answers");
            return;
        };
        error!(user.id = %user, error = %error, "the user's view cannot be read: view dropped");
        counter!(DROPPED_VIEWS, "reason" => reason).increment(1);
        if let Err(error) = self.store.drop_view(user).await {
            warn!(user.id = %user, error = %error, "view not dropped");
        }
    }
}

/// One reader's part in the reads of a user; gone when the reader is, finished or dropped.
struct Flight<'a> {
    reader: &'a ViewReader,
    user: UserId,
    lock: Arc<Mutex<()>>,
}

impl<'a> Flight<'a> {
    fn join(reader: &'a ViewReader, user: UserId) -> Self {
        let mut flights = reader.flights.lock().unwrap_or_else(PoisonError::into_inner);
        Self { reader, user, lock: Arc::clone(flights.entry(user).or_default()) }
    }
}

impl Drop for Flight<'_> {
    /// The last reader takes the lock out of the map.
    fn drop(&mut self) {
        let mut flights = self.reader.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // Two holders: the map and this one.
        if Arc::strong_count(&self.lock) == 2 {
            flights.remove(&self.user);
        }
    }
}
