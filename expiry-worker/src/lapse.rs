//! Lapses: holds whose time is over give back their units and numbers, in returns of up to 255 coupons of one template.
//!
//! A return locks the template's stock row from its update to its commit, so the returns of one template commit one
//! after the other. It updates the coupons before that, so a few returns at once overlap.
//!
//! A return that fails holds up no other. A coupon that another transaction has locked is skipped: that transaction
//! decides about it. If a template's stock row stays locked, all of its holds are put off. A return whose rows MySQL
//! refuses is halved until the bad hold is alone, and that hold is put off. So are holds whose template does not exist
//! or cannot be read. Repeating a return is harmless: it takes what is still held.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coupon::{CouponId, ReturnedStock, TemplateId, limit::RETURN_COUPONS_MAX};
use futures::future::join_all;
use metrics::{counter, histogram};
use mysql_store::{
    MySqlPool, StoreError, connect,
    expiry::{self, DueHold},
    returns::{Cause, GivenBack, Return},
};
use runtime::{
    Clock, FailPoints,
    trace::{self, Kind},
};
use tokio::time::Instant;

use crate::{
    metrics::{LAPSE_LATENESS, LAPSED, PUT_OFF},
    stock_locks::StockLocks,
};

/// Returns of one shard at once. With the shards that are drained at once there are four: one commits while others work
/// on their coupons, and more would wait for the stock row with their coupons locked. No measurement has compared other
/// numbers yet.
pub(crate) const RETURNS_AT_ONCE: usize = 2;

/// The actor in the movement.
const ACTOR: &str = "deadline";

/// The reason in the movement.
const REASON: &str = "lapsed";

/// Templates whose terms are remembered. They cannot change once there are holds, so forgetting them costs one read.
const TERMS_MAX: usize = 10_000;

/// Lapses holds.
pub(crate) struct Lapser {
    pub(crate) pool: MySqlPool,
    pub(crate) clock: Clock,
    /// `lapse.before_return`, `lapse.before_commit` and `lapse.after_commit`, once per return.
    pub(crate) points: FailPoints,
    terms: Mutex<HashMap<TemplateId, ReturnedStock>>,
    locks: StockLocks,
}

/// The due holds of a shard, in chunks of one template each.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    chunks: VecDeque<Vec<DueHold>>,
    /// The last hold that was read.
    last: Option<DueHold>,
    /// Whether some could not lapse and are not in `chunks` any more.
    has_put_off: bool,
}

/// Returns that ran at once, as input for the pace. A return that waited for another transaction and gave nothing back
/// is not among them: it says nothing about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Returned {
    /// Coupons of the largest one.
    pub(crate) coupons: usize,
    /// Statements that wrote.
    pub(crate) writes: u64,
    /// Duration of the longest one.
    pub(crate) took: Duration,
}

impl Returned {
    fn of(given: &GivenBack, took: Duration) -> Self {
        // Of the coupons, the stock, the users' lapses and the movement.
        Self { coupons: given.coupons.len(), writes: 4, took }
    }

    fn beside(self, other: Self) -> Self {
        Self {
            coupons: self.coupons.max(other.coupons),
            writes: self.writes + other.writes,
            took: self.took.max(other.took),
        }
    }
}

/// Why a return did not take place.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Point(#[from] io::Error),
    #[error("holds of template {0}, which does not exist")]
    NoTemplate(TemplateId),
    #[error("holds of template {0}, whose stock row another transaction has locked")]
    Locked(TemplateId),
}

impl Failure {
    /// Whether a smaller return may succeed: it met another transaction, or one of its rows is bad.
    fn may_be_of_few(&self) -> bool {
        let Self::Store(error) = self else { return false };
        error.is_conflict() || error.is_of_row() || error.is_unreadable()
    }

    /// Whether the server failed, and other returns may fail as well.
    fn is_of_server(&self) -> bool {
        match self {
            Self::Store(error) => error.is_unavailable(),
            Self::Point(_) => true,
            Self::NoTemplate(_) | Self::Locked(_) => false,
        }
    }
}

impl Holds {
    /// Takes up due holds as they were read, grouped by template.
    pub(crate) fn add(&mut self, due: &[DueHold]) {
        self.last = due.last().copied().or(self.last);
        let mut open: HashMap<TemplateId, usize> = HashMap::new();
        for hold in due {
            let at = *open.entry(hold.template_id).or_insert(usize::MAX);
            match self.chunks.get_mut(at).filter(|chunk| chunk.len() < RETURN_COUPONS_MAX) {
                Some(chunk) => chunk.push(*hold),
                None => {
                    open.insert(hold.template_id, self.chunks.len());
                    self.chunks.push_back(vec![*hold]);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether at most `returns` would lapse all of them.
    pub(crate) fn fit(&self, returns: usize) -> bool {
        self.chunks.len() <= returns
    }

    /// Where the next read continues: holds that were put off are passed over.
    pub(crate) fn behind(&self) -> Option<DueHold> {
        self.last.filter(|_| self.has_put_off)
    }

    /// Whether some were put off.
    pub(crate) fn has_put_off(&self) -> bool {
        self.has_put_off
    }

    /// Puts all holds of a template off.
    fn put_off_all(&mut self, template: TemplateId, failure: &Failure) {
        let of_it =
            |chunk: &Vec<DueHold>| chunk.first().is_some_and(|one| one.template_id == template);
        let (off, rest): (Vec<_>, Vec<_>) = self.chunks.drain(..).partition(of_it);
        self.chunks = rest.into();
        self.put_off(&off.concat(), failure);
    }

    fn put_off(&mut self, chunk: &[DueHold], failure: &Failure) {
        self.has_put_off = true;
        counter!(PUT_OFF.name).increment(chunk.len() as u64);
        runtime::seldom!("holds are not lapsed, it is tried again", runtime::report(failure));
    }
}

impl Lapser {
    pub(crate) fn new(pool: MySqlPool, clock: Clock, points: FailPoints) -> Self {
        Self { pool, clock, points, terms: Mutex::default(), locks: StockLocks::default() }
    }

    /// Lapses up to `at_once` chunks of `holds`. `None` if nothing lapsed.
    ///
    /// # Errors
    /// The server failed. What it concerns is still in `holds`.
    pub(crate) async fn step(
        &self,
        holds: &mut Holds,
        at_once: usize,
    ) -> anyhow::Result<Option<Returned>> {
        let most = at_once.clamp(1, RETURNS_AT_ONCE).min(holds.chunks.len());
        let chunks: Vec<_> = holds.chunks.drain(..most).collect();
        let ended = join_all(chunks.iter().map(|chunk| self.timed(chunk))).await;
        let mut returned = None::<Returned>;
        let mut failed = None;
        for (mut chunk, (ended, took)) in chunks.into_iter().zip(ended) {
            match ended {
                Ok(None) => {
                    holds.has_put_off |= self.is_any_held(&chunk, None).await.unwrap_or(true);
                }
                Ok(Some(given)) => {
                    let held = self.is_any_held(&chunk, Some(&given)).await;
                    holds.has_put_off |= held.unwrap_or(true);
                    self.measure(&chunk, &given);
                    let this = Returned::of(&given, took);
                    returned = Some(returned.map_or(this, |other| other.beside(this)));
                }
                Err(failure) if failure.is_of_server() => {
                    holds.chunks.push_back(chunk);
                    failed = Some(failure);
                }
                Err(failure @ Failure::Locked(template)) => {
                    holds.put_off(&chunk, &failure);
                    holds.put_off_all(template, &failure);
                }
                Err(failure) if failure.may_be_of_few() && chunk.len() > 1 => {
                    let half = chunk.split_off(chunk.len() / 2);
                    holds.chunks.extend([chunk, half]);
                }
                Err(failure) => holds.put_off(&chunk, &failure),
            }
        }
        failed.map_or(Ok(returned), |failure| Err(failure.into()))
    }

    /// Returns whether some of a chunk that were not returned are still held, because another transaction has them
    /// locked. The others were confirmed, cancelled or returned meanwhile.
    async fn is_any_held(
        &self,
        chunk: &[DueHold],
        given: Option<&GivenBack>,
    ) -> Result<bool, Failure> {
        let ended: HashSet<CouponId> =
            given.iter().flat_map(|given| &given.coupons).map(|coupon| coupon.id).collect();
        let left: Vec<CouponId> =
            chunk.iter().map(|hold| hold.id).filter(|id| !ended.contains(id)).collect();
        if left.is_empty() {
            return Ok(false);
        }
        let held = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            expiry::still_held(&mut connection, &left).await
        });
        Ok(!held.await?.is_empty())
    }

    async fn timed(&self, chunk: &[DueHold]) -> (Result<Option<GivenBack>, Failure>, Duration) {
        let began = Instant::now();
        (self.lapse(chunk).await, began.elapsed())
    }

    /// Lapses those of a chunk that are still held. `None` if there was none.
    async fn lapse(&self, chunk: &[DueHold]) -> Result<Option<GivenBack>, Failure> {
        let Some(first) = chunk.first() else { return Ok(None) };
        self.points.reach("lapse.before_return").await?;
        let template = first.template_id;
        if !self.locks.may_wait(template, Instant::now().into_std())
            && self.locks.is_locked(&self.pool, template).await?
        {
            return Err(Failure::Locked(template));
        }
        let returned_stock = self.returned_stock(first.template_id).await?;
        let ids: Vec<CouponId> = chunk.iter().map(|hold| hold.id).collect();
        let lapse = Return {
            template: first.template_id,
            returned_stock,
            cause: Cause::Lapse,
            reason: REASON,
            actor: ACTOR,
            now: self.clock.now(),
        };
        let given = connect::within(async {
            let mut transaction = connect::begin(&self.pool).await?;
            let given = lapse.of(&mut transaction, &ids).await?;
            if given.is_some() {
                self.points.reach("lapse.before_commit").await?;
                connect::commit(transaction).await?;
            }
            Ok::<_, Failure>(given)
        });
        let given = match given.await {
            // If the stock row is locked, every other return of the template would wait as long.
            Err(Failure::Store(error)) if error.is_lock_wait() => {
                let is_locked = self.locks.is_locked(&self.pool, template).await?;
                return Err(if is_locked { Failure::Locked(template) } else { error.into() });
            }
            given => given?,
        };
        self.locks.passed(first.template_id);
        self.points.reach("lapse.after_commit").await?;
        Ok(given)
    }

    async fn returned_stock(&self, template: TemplateId) -> Result<ReturnedStock, Failure> {
        if let Some(known) = self.terms().get(&template) {
            return Ok(*known);
        }
        let read = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            expiry::returned_stock(&mut connection, template).await
        });
        let read = read.await?.ok_or(Failure::NoTemplate(template))?;
        let mut terms = self.terms();
        if terms.len() >= TERMS_MAX {
            terms.clear();
        }
        terms.insert(template, read);
        Ok(read)
    }

    fn terms(&self) -> MutexGuard<'_, HashMap<TemplateId, ReturnedStock>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn measure(&self, chunk: &[DueHold], given: &GivenBack) {
        counter!(LAPSED.name).increment(given.coupons.len() as u64);
        let done = self.clock.now();
        let ended: HashSet<CouponId> = given.coupons.iter().map(|coupon| coupon.id).collect();
        for hold in chunk.iter().filter(|hold| ended.contains(&hold.id)) {
            let late = (done - hold.valid_until).to_std().unwrap_or_default();
            histogram!(LAPSE_LATENESS.name).record(late.as_secs_f64());
        }
        if trace::is_on() {
            trace_lapses(given);
        }
    }
}

/// Records the lapse, the last hop of a claim's trace.
fn trace_lapses(given: &GivenBack) {
    for coupon in &given.coupons {
        let Some(parent) = &coupon.trace_parent else { continue };
        let since = coupon.changed_at;
        let mut span = trace::follow_since("expiry-worker.lapse", Kind::Internal, parent, since);
        span.set("db.system.name", "mysql");
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn due(id: i64, template: i64) -> DueHold {
        let valid_until = DateTime::UNIX_EPOCH;
        DueHold { id: CouponId(id), template_id: TemplateId(template), valid_until }
    }

    fn chunks(holds: &Holds) -> Vec<(i64, usize)> {
        holds.chunks.iter().map(|chunk| (chunk[0].template_id.0, chunk.len())).collect()
    }

    #[test]
    fn due_holds_are_grouped_by_template_in_the_order_of_their_first_deadlines() {
        let mut holds = Holds::default();
        let read: Vec<_> = (0..600).map(|id| due(id, 1 + i64::from(id % 3 == 0))).collect();
        holds.add(&read);
        assert_eq!(chunks(&holds), [(2, 200), (1, 255), (1, 145)]);
        assert!(holds.fit(3) && !holds.fit(2));
        holds.add(&[due(600, 1)]);
        assert_eq!(chunks(&holds).last(), Some(&(1, 1)), "an earlier chunk may be under way");
    }

    #[test]
    fn what_was_put_off_is_passed_over() {
        let mut holds = Holds::default();
        holds.add(&[due(1, 1), due(2, 1)]);
        assert_eq!(holds.behind(), None, "what lapsed is gone from the index");
        holds.put_off(&[due(1, 1)], &Failure::NoTemplate(TemplateId(1)));
        assert_eq!(holds.behind(), Some(due(2, 1)));
        holds.add(&[]);
        assert_eq!(holds.behind(), Some(due(2, 1)));
    }
}
