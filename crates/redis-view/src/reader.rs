//! "My coupons": from the view, and where that cannot be trusted a page of MySQL, while the view is rebuilt.
//!
//! Whatever is read of MySQL for a reader is as long as a page, and the reads are bounded for the process: a view server
//! that was emptied makes every user cold at once, and MySQL must not feel it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as Lock, PoisonError},
    time::Duration,
};

use chrono::{DateTime, Utc};
use coupon::UserId;
use thiserror::Error;
use tokio::{
    sync::{Mutex, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{
    Page, PageAnswer, PageRequest, Rebuilt, Truth, ViewStore,
    rebuilds::{Rebuilds, note},
};

/// Reads of MySQL at a time, pages and the rows of short lists: with a few milliseconds each, thousands of users a
/// second, on a part of the pool's connections.
const READS_MAX: usize = 8;

/// How long a reader waits for its turn; then the caller sheds the request.
const TURN_MAX: Duration = Duration::from_secs(2);

/// Counter by `reason`, one of [`DROP_REASONS`]: views that a reader could not read and has dropped.
pub const DROPPED_VIEWS: &str = "coupon_dropped_views_total";

/// The values of `reason`.
pub const DROP_REASONS: [&str; 2] = ["unreadable", "wrong_type"];

/// Answers "my coupons".
pub struct ViewReader<T> {
    store: ViewStore,
    truth: Arc<T>,
    turns: Arc<Semaphore>,
    rebuilds: Rebuilds<T>,
    /// The users whose pages are being read from MySQL, each with the lock that its other readers
    /// wait for: one with many connections has no more turns than the next.
    flights: Flights,
}

type Flights = Lock<HashMap<UserId, Arc<Mutex<()>>>>;

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
    /// The view, which was rebuilt from MySQL for this reader.
    Rebuild,
    /// MySQL: the view did not know the caller's own claim yet, is under a rebuild that takes long or is another
    /// process's, or cannot be reached.
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
    /// They could not be read for the view, and that took so long that the reader does not try by itself.
    #[error("the user's coupons could not be read in time")]
    Unread,
    /// Too many readers wait for MySQL already: shed the request.
    #[error("too many readers wait for their coupons")]
    Overloaded,
}

impl<T: Truth> ViewReader<T> {
    /// A reader of `store`, which is made from `truth`.
    pub fn new(store: ViewStore, truth: T) -> Self {
        let (truth, turns) = (Arc::new(truth), Arc::new(Semaphore::new(READS_MAX)));
        let rebuilds = Rebuilds::new(store.clone(), Arc::clone(&truth), Arc::clone(&turns));
        Self { store, truth, turns, rebuilds, flights: Lock::default() }
    }

    /// The view behind it.
    pub fn store(&self) -> &ViewStore {
        &self.store
    }

    /// A page of the user's usable coupons.
    ///
    /// A cold view is rebuilt by a task that goes on when the reader has left. Of a short list the reader waits for the view;
    /// of a long one, and wherever the view cannot answer, it gets the same page from MySQL. An unreachable view is no error.
    ///
    /// # Errors
    /// The rows cannot be read, or too many readers wait already.
    pub async fn my_coupons(
        &self,
        user: UserId,
        request: &PageRequest,
    ) -> Result<MyCoupons, MyCouponsError<T::Error>> {
        let deadline = Instant::now() + TURN_MAX;
        let overloaded = |_| MyCouponsError::Overloaded;
        match self.ask(user, request).await {
            PageAnswer::Page(page) => return Ok(MyCoupons { page, origin: Origin::View }),
            PageAnswer::Unknown => {}
            PageAnswer::Cold => {
                if let Some(rebuild) = self.rebuilds.join(user, request.now) {
                    let origin = if rebuild.is_first { Origin::Rebuild } else { Origin::View };
                    let rebuilt = rebuild.soon(deadline).await.map_err(overloaded)?;
                    if rebuilt == Some(Rebuilt::Whole)
                        && let PageAnswer::Page(page) = self.ask(user, request).await
                    {
                        return Ok(MyCoupons { page, origin });
                    }
                    // With no time left for a read of its own.
                    if rebuilt == Some(Rebuilt::Unread) && Instant::now() >= deadline {
                        return Err(MyCouponsError::Unread);
                    }
                }
            }
        }
        let flight = Flight::join(&self.flights, user);
        let turn = async { (flight.lock.lock().await, self.turns.acquire().await) };
        let (_alone, turn) = timeout_at(deadline, turn).await.map_err(overloaded)?;
        let _turn = turn.map_err(|_| MyCouponsError::Overloaded)?;
        let page = Page::of_truth(&*self.truth, user, request).await;
        let page = page.map_err(MyCouponsError::Rows)?;
        Ok(MyCoupons { page, origin: Origin::Truth })
    }

    /// Rebuilds the user's view if it is cold, and waits until that has ended, however long the list is. A caller that
    /// does not wait cancels nothing.
    pub async fn rebuild(&self, user: UserId, now: DateTime<Utc>) -> Rebuilt {
        match self.rebuilds.join(user, now) {
            Some(rebuild) => rebuild.ended().await,
            None => Rebuilt::TooMany,
        }
    }

    /// The view's answer; a view that fails is as good as none.
    async fn ask(&self, user: UserId, request: &PageRequest) -> PageAnswer {
        match self.store.page(user, request).await {
            Ok(answer) => answer,
            Err(error) => {
                note(&self.store, user, &error).await;
                PageAnswer::Cold
            }
        }
    }
}

/// One reader's part in the reads of a user; gone when the reader is, finished or dropped.
struct Flight<'a> {
    flights: &'a Flights,
    user: UserId,
    lock: Arc<Mutex<()>>,
}

impl<'a> Flight<'a> {
    fn join(flights: &'a Flights, user: UserId) -> Self {
        let mut map = flights.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = Arc::clone(map.entry(user).or_default());
        drop(map);
        Self { flights, user, lock }
    }
}

impl Drop for Flight<'_> {
    /// The last reader takes the lock out of the map.
    fn drop(&mut self) {
        let mut map = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // Two holders: the map and this one.
        if Arc::strong_count(&self.lock) == 2 {
            map.remove(&self.user);
        }
    }
}
