//! Serves "my coupons" from the view. While a view cannot be trusted and is rebuilt, serves a page from MySQL.
//!
//! Each read of MySQL for a reader is as long as a page, and the number of concurrent reads is limited for the process:
//! an emptied view server makes every user cold at once, and must not overload MySQL.

mod damage;
pub(crate) mod metric;
pub(crate) mod rebuilds;

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
    reader::{damage::drop_if_damaged, rebuilds::Rebuilds},
};

/// Largest number of concurrent reads of MySQL: pages, and the rows of short lists. At a few milliseconds each, this
/// serves thousands of users a second on a part of the connection pool.
const READS_MAX: usize = 8;

/// How long a reader waits for its turn. After that, the caller sheds the request.
const TURN_MAX: Duration = Duration::from_secs(2);

pub struct ViewReader<T> {
    store: ViewStore,
    truth: Arc<T>,
    turns: Arc<Semaphore>,
    rebuilds: Rebuilds<T>,
    /// Users whose pages are being read from MySQL, each with a lock for which the user's other readers wait. So a user
    /// with many connections gets no more turns than others.
    flights: Flights,
}

type Flights = Lock<HashMap<UserId, Arc<Mutex<()>>>>;

/// A page and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MyCoupons {
    pub page: Page,
    pub origin: Origin,
}

/// Source of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The view.
    View,
    /// The view, after a rebuild that this reader started.
    Rebuild,
    /// MySQL: the view did not know the caller's own claim yet, is under a rebuild that takes long or runs in another
    /// process, or cannot be reached.
    Truth,
}

impl Origin {
    /// One word, for metrics.
    pub const fn word(self) -> &'static str {
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
    /// The rows could not be read. Holds the caller's own error.
    #[error("the user's coupons could not be read")]
    Rows(#[source] E),
    /// The rebuild could not read the rows, and took so long that no time is left to read a page.
    #[error("the user's coupons could not be read in time")]
    Unread,
    /// Too many readers wait for MySQL already: shed the request.
    #[error("too many readers wait for their coupons")]
    Overloaded,
}

impl<T: Truth> ViewReader<T> {
    /// Creates a reader of `store`, whose views are rebuilt from `truth`.
    pub fn new(store: ViewStore, truth: T) -> Self {
        let truth = Arc::new(truth);
        let turns = Arc::new(Semaphore::new(READS_MAX));
        let rebuilds = Rebuilds::new(store.clone(), Arc::clone(&truth), Arc::clone(&turns));
        Self { store, truth, turns, rebuilds, flights: Lock::default() }
    }

    pub fn store(&self) -> &ViewStore {
        &self.store
    }

    /// Returns a page of the user's usable coupons.
    ///
    /// A cold view is rebuilt by a task that continues when the reader leaves. For a short list, the reader waits for
    /// the view. For a long list, and whenever the view cannot answer, it gets the same page from MySQL. An unreachable
    /// view is not an error.
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
                    // No time is left for the reader's own read.
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

    /// Rebuilds the user's view if it is cold, and waits for the end of the rebuild, however long the list is. A caller
    /// that stops waiting does not cancel it.
    pub async fn rebuild(&self, user: UserId, now: DateTime<Utc>) -> Rebuilt {
        match self.rebuilds.join(user, now) {
            Some(rebuild) => rebuild.ended().await,
            None => Rebuilt::TooMany,
        }
    }

    /// Asks the view. A view that fails counts as cold.
    async fn ask(&self, user: UserId, request: &PageRequest) -> PageAnswer {
        match self.store.page(user, request).await {
            Ok(answer) => answer,
            Err(error) => {
                drop_if_damaged(&self.store, user, &error).await;
                PageAnswer::Cold
            }
        }
    }
}

/// One reader among those of a user that wait to read MySQL. Dropped with the reader.
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
    /// The last reader removes the lock from the map.
    fn drop(&mut self) {
        let mut map = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // Two holders are left: the map and this reader.
        if Arc::strong_count(&self.lock) == 2 {
            map.remove(&self.user);
        }
    }
}
