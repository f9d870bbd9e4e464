//! Total and remaining stock of templates for shop pages: from memory, and from the gate a few times a second.
//!
//! However many pages are open, each process reads a template's gate once in [`FRESH_FOR`], and requests that come
//! during the read wait for its answer. A gate that does not answer also costs one wait in that time. No request waits for
//! MySQL, which has the total: a task of its own reads it again when the gate shows another movement.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use coupon::TemplateId;
use mysql_store::{MySqlPool, StoreError, connect, list};
use redis_gate::Gate;
use tokio::{sync::Mutex, time::Instant};
use tracing::debug;

/// Longest age of an answer: less than a page notices, and four reads a second for each template.
const FRESH_FOR: Duration = Duration::from_millis(250);

/// Shortest time between two reads of a total: each return of a held coupon is a movement, and there are many a second.
const TOTAL_AGAIN: Duration = Duration::from_secs(1);

/// Longest age of a total that is shown although the gate has moved on: while pages are open it is read again each
/// [`TOTAL_AGAIN`]. An older one may be of hours ago, when somebody looked last.
const TOTAL_MOVED_FOR: Duration = Duration::from_secs(3);

/// Longest age of a total while no gate says that it has moved: it changes rarely, by an operator's call.
const TOTAL_FRESH_FOR: Duration = Duration::from_secs(60);

/// Maximum templates in the cache: more than are ever open at once. A full cache is cleared.
const TEMPLATES_MAX: usize = 10_000;

/// What a shop page shows of a template's stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `None`: the gate is not loaded or does not answer.
    pub(crate) left: Option<i64>,
    /// `None`: it was not read yet.
    pub(crate) total: Option<i64>,
}

/// What an open gate says.
#[derive(Debug, Clone, Copy)]
struct InGate {
    left: i64,
    /// The last movement that it contains.
    movement: i64,
}

/// When the gate was read, and what it said. Inner `None`: it was not loaded.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Instant,
    gate: Option<InGate>,
}

/// The total as MySQL said it last.
#[derive(Debug, Default)]
struct Total {
    total: Option<i64>,
    /// The gate's last movement when it was read.
    movement: Option<i64>,
    /// When that read began.
    read_at: Option<Instant>,
    /// When the last read began.
    asked_at: Option<Instant>,
    /// Whether a read is under way.
    is_asked: bool,
}

/// What is known of a template.
#[derive(Default)]
struct Entry {
    seen: Mutex<Option<Seen>>,
    total: StdMutex<Total>,
}

/// The last answers of the gates, and of MySQL.
pub(crate) struct ShopStock {
    gate: Gate,
    pool: MySqlPool,
    entries: RwLock<HashMap<TemplateId, Arc<Entry>>>,
}

impl ShopStock {
    pub(crate) fn new(gate: Gate, pool: MySqlPool) -> Self {
        Self { gate, pool, entries: RwLock::default() }
    }

    /// Returns what is left, and of how many. The gate is asked only if the template needs one. What is left is never below
    /// 0, although a cut may put a gate there for a moment.
    pub(crate) async fn shown(&self, template: TemplateId, has_gate: bool) -> Shown {
        let entry = self.entry(template);
        let gate = if has_gate { self.in_gate(template, &entry).await } else { None };
        let total = self.total(template, &entry, gate.map(|gate| gate.movement));
        Shown { left: gate.map(|gate| gate.left), total }
    }

    async fn in_gate(&self, template: TemplateId, entry: &Entry) -> Option<InGate> {
        let mut seen = entry.seen.lock().await;
        if let Some(Seen { at, gate }) = *seen
            && at.elapsed() < FRESH_FOR
        {
            return gate;
        }
        let gate = match self.gate.meta(template).await {
            Ok(meta) => meta
                .filter(redis_gate::Meta::is_open)
                .map(|meta| InGate { left: meta.stock.max(0), movement: meta.movement }),
            Err(error) => {
                let error = runtime::report(&error);
                debug!(template.id = %template, error, "the remaining stock cannot be read");
                None
            }
        };
        *seen = Some(Seen { at: Instant::now(), gate });
        gate
    }

    /// Returns the total as it is known, and has it read again if it may have changed.
    fn total(
        &self,
        template: TemplateId,
        entry: &Arc<Entry>,
        movement: Option<i64>,
    ) -> Option<i64> {
        let mut known = entry.total();
        if known.is_due(movement, Instant::now()) {
            known.is_asked = true;
            known.asked_at = Some(Instant::now());
            let pool = self.pool.clone();
            let entry = Arc::clone(entry);
            tokio::spawn(async move {
                let read = read_total(&pool, template).await;
                entry.total().take(read, movement, template);
            });
        }
        known.shown(movement, Instant::now())
    }

    fn entry(&self, template: TemplateId) -> Arc<Entry> {
        let known = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get(&template) {
            return Arc::clone(entry);
        }
        drop(known);
        let mut known = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TEMPLATES_MAX {
            known.clear();
        }
        Arc::clone(known.entry(template).or_default())
    }
}

impl Entry {
    fn total(&self) -> MutexGuard<'_, Total> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Total {
    /// Returns whether it is to be read: the gate has moved on, or nobody has looked for long.
    fn is_due(&self, movement: Option<i64>, now: Instant) -> bool {
        let Some(asked_at) = self.asked_at else { return true };
        let age = now.saturating_duration_since(asked_at);
        let has_moved = self.total.is_none() || (movement.is_some() && movement != self.movement);
        !self.is_asked && ((has_moved && age >= TOTAL_AGAIN) || age >= TOTAL_FRESH_FOR)
    }

    /// Returns the total, unless it is of an earlier time of a gate that has moved on.
    fn shown(&self, movement: Option<i64>, now: Instant) -> Option<i64> {
        let has_moved = movement.is_some() && movement != self.movement;
        let age = self.read_at.map(|at| now.saturating_duration_since(at));
        let is_old = age.is_none_or(|age| age >= TOTAL_MOVED_FOR);
        self.total.filter(|_| !has_moved || !is_old)
    }

    /// Takes what MySQL said. What was known stays if it did not answer.
    fn take(
        &mut self,
        read: Result<Option<i64>, StoreError>,
        movement: Option<i64>,
        template: TemplateId,
    ) {
        self.is_asked = false;
        match read {
            Ok(total) => {
                self.total = total;
                self.movement = movement;
                self.read_at = self.asked_at;
            }
            Err(error) => {
                let error = runtime::report(&error);
                debug!(template.id = %template, error, "the total stock cannot be read");
            }
        }
    }
}

async fn read_total(pool: &MySqlPool, template: TemplateId) -> Result<Option<i64>, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        let accounts = list::accounts(&mut connection, &[template]).await?;
        Ok(accounts.get(&template).map(|account| account.total))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_read_again_when_the_gate_has_moved_and_once_in_a_while() {
        let now = Instant::now();
        let mut total = Total::default();
        assert!(total.is_due(Some(1), now), "it was never read");
        total = Total { asked_at: Some(now), is_asked: true, ..total };
        assert!(!total.is_due(Some(1), now + TOTAL_FRESH_FOR), "a read is under way");
        total.take(Ok(Some(9)), Some(1), TemplateId(7));
        assert!(!total.is_due(Some(1), now + TOTAL_AGAIN));
        assert!(!total.is_due(None, now + TOTAL_AGAIN), "no gate says anything");
        assert!(total.is_due(None, now + TOTAL_FRESH_FOR));
        assert!(!total.is_due(Some(2), now), "not at each movement of many");
        assert!(total.is_due(Some(2), now + TOTAL_AGAIN));
        assert_eq!(total.shown(Some(2), now + TOTAL_AGAIN), Some(9), "it is read again now");
        assert_eq!(total.shown(Some(2), now + TOTAL_MOVED_FOR), None, "nobody has looked for long");
        assert_eq!(total.shown(Some(1), now + TOTAL_FRESH_FOR), Some(9));
        assert_eq!(total.shown(None, now + TOTAL_FRESH_FOR), Some(9));
        total.take(Err(StoreError::Contended), Some(2), TemplateId(7));
        assert_eq!((total.total, total.movement), (Some(9), Some(1)), "as it was known");
    }
}
