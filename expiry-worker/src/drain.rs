//! One step of a drain: lapses some chunks of the due holds of a shard, and flips one chunk of its due coupons.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use coupon::CouponId;
use metrics::{counter, histogram};
use mysql_store::{
    MySqlConnection, StoreError, connect,
    expiry::{self, Due, FLIP_MAX},
};
use runtime::{
    Clock,
    trace::{self, Kind},
};
use tokio::time::Instant;
use tracing::debug;

use crate::{
    lapse::{Holds, Lapser, Returned},
    metrics::{FLIPS, LATENESS},
};

/// Coupons read at once, enough for several flips: each read of the index scans past the recently flipped entries until
/// the server purges them.
const READ_MAX: usize = 8 * FLIP_MAX;

/// Wait before holds that were put off are tried again.
const PUT_OFF_WAIT: TimeDelta = TimeDelta::seconds(5);

/// A shard that is being drained: its coupons that are due and have not ended yet. Another worker may end them first; the
/// guards of flips and returns handle that.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// At most [`READ_MAX`], in descending order of deadline.
    due: Vec<Due>,
    /// At most [`READ_MAX`].
    holds: Holds,
    /// Most coupons of the next flip: fewer after one that MySQL refused, until the bad coupon is alone.
    flip_max: Option<usize>,
    /// The last coupon that was read.
    last: Option<Due>,
    /// Whether coupons could not be flipped, and are not in `due` any more.
    has_skipped: bool,
    /// Whether to check for locked coupons before each flip, which otherwise would wait for them.
    is_wary: bool,
}

/// The state of a drain after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// There may be more.
    More,
    /// Nothing more is due. Holds the shard's next deadline.
    Until(Option<DateTime<Utc>>),
    /// The earliest coupon is due by our clock but not by MySQL's, which is behind.
    TooEarly(DateTime<Utc>),
    /// Only coupons that could not end are still due. They are tried again at this time.
    PutOff(DateTime<Utc>),
}

/// A flipping statement, as input for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flip {
    /// Coupons passed to the statement.
    pub(crate) coupons: usize,
    /// Those of them that it expired.
    pub(crate) expired: u64,
    pub(crate) took: Duration,
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) drained: Drained,
    pub(crate) flip: Option<Flip>,
    pub(crate) returned: Option<Returned>,
}

impl Step {
    /// Whether it ended coupons that no other worker had ended.
    pub(crate) fn has_ended_any(&self) -> bool {
        self.returned.is_some() || self.flip.is_some_and(|flip| flip.expired > 0)
    }
}

impl Drain {
    /// Begins a drain. `is_wary`: it checks for locked coupons before each flip.
    pub(crate) fn new(is_wary: bool) -> Self {
        Self { is_wary, ..Self::default() }
    }

    /// Makes up to `returns` returns of due holds of `shard`, and then flips up to [`FLIP_MAX`] due coupons of it. Holds come
    /// first: others wait for their stock. Every call on one `Drain` must pass the same shard.
    pub(crate) async fn step(
        &mut self,
        connection: &mut MySqlConnection,
        shard: u8,
        returns: usize,
        lapser: &Lapser,
    ) -> anyhow::Result<Step> {
        let now = lapser.clock.now();
        let was_empty = self.is_empty();
        connect::within(self.read(connection, shard, now)).await?;
        let all = was_empty && self.due.len() <= FLIP_MAX && self.holds.fit(returns);
        let returned = lapser.step(&mut self.holds, returns).await.context("a lapse")?;
        let mut most = self.flip_max.unwrap_or(FLIP_MAX);
        if self.is_wary {
            most = connect::within(self.skip_locked(connection, most)).await?;
        }
        let flipped = self.flip(connection, most, now, &lapser.clock);
        let flip = match connect::within(flipped).await {
            Ok(flip) => {
                self.flip_max = self.flip_max.map(|few| few * 2).filter(|few| *few < FLIP_MAX);
                flip
            }
            // Another transaction keeps one of the coupons locked.
            Err(error) if error.is_lock_wait() => {
                self.is_wary = true;
                None
            }
            // The same chunk is tried again.
            Err(error) if error.is_conflict() => None,
            // MySQL refuses one of them.
            Err(error) if error.is_of_row() => {
                self.narrow(most, &error);
                None
            }
            Err(error) => return Err(error.into()),
        };
        let mut step = Step { drained: Drained::More, flip, returned };
        if all && self.is_empty() {
            step.drained = connect::within(self.ended(connection, shard, now, &step)).await?;
        }
        Ok(step)
    }

    fn is_empty(&self) -> bool {
        self.due.is_empty() && self.holds.is_empty()
    }

    /// Reads more holds, and more coupons, if none of them are left. Due holds are read before each flip, so a hold
    /// that ends while thousands of coupons are due waits for one flip at most. That costs each flip one seek.
    async fn read(
        &mut self,
        connection: &mut MySqlConnection,
        shard: u8,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let most = u32::try_from(READ_MAX).unwrap_or(u32::MAX);
        if self.holds.is_empty() {
            let behind = self.holds.behind();
            self.holds.add(&expiry::due_holds(connection, shard, behind, now, most).await?);
        }
        if self.due.is_empty() {
            // Skipped coupons are passed over, or the drain would never end.
            let behind = self.last.filter(|_| self.has_skipped);
            self.due = expiry::due(connection, shard, behind, now, most).await?;
            self.last = self.due.last().copied().or(self.last);
            self.due.reverse();
        }
        Ok(())
    }

    /// The state of the drain after everything that was due at `now` was tried.
    async fn ended(
        &self,
        connection: &mut MySqlConnection,
        shard: u8,
        now: DateTime<Utc>,
        step: &Step,
    ) -> Result<Drained, StoreError> {
        if self.holds.has_put_off() || self.has_skipped {
            let next = expiry::next_deadline_after(connection, shard, now).await?;
            let again = now + PUT_OFF_WAIT;
            return Ok(Drained::PutOff(next.map_or(again, |next| next.min(again))));
        }
        let is_idle = step.flip.is_none() && step.returned.is_none();
        Ok(match expiry::next_deadline(connection, shard).await? {
            Some(next) if next <= now && is_idle => Drained::TooEarly(next),
            next => Drained::Until(next),
        })
    }

    /// Skips those of the next `most` coupons that another transaction has locked, and returns how many are left.
    async fn skip_locked(
        &mut self,
        connection: &mut MySqlConnection,
        most: usize,
    ) -> Result<usize, StoreError> {
        let left = self.due.len().saturating_sub(most);
        let ids: Vec<CouponId> = self.due[left..].iter().map(|due| due.id).collect();
        let free = expiry::free_of(connection, &ids).await?;
        let before = self.due.len();
        let mut at = 0;
        self.due.retain(|due| {
            at += 1;
            at <= left || free.contains(&due.id)
        });
        self.has_skipped |= self.due.len() < before;
        Ok(self.due.len() - left)
    }

    /// Halves the next flip after one of `most` coupons failed, or skips the coupon at fault.
    fn narrow(&mut self, most: usize, error: &StoreError) {
        let tried = most.min(self.due.len());
        self.flip_max = Some((tried / 2).max(1));
        if tried == 1 {
            self.due.pop();
            self.has_skipped = true;
            runtime::seldom!("a coupon is not expired, it is tried again", runtime::report(error));
        }
    }

    /// Flips the next `most` coupons in one statement; `None` if there are none.
    async fn flip(
        &mut self,
        connection: &mut MySqlConnection,
        most: usize,
        now: DateTime<Utc>,
        clock: &Clock,
    ) -> Result<Option<Flip>, StoreError> {
        let left = self.due.len().saturating_sub(most);
        let chunk = &self.due[left..];
        if chunk.is_empty() {
            return Ok(None);
        }
        let ids: Vec<_> = chunk.iter().map(|due| due.id).collect();
        let began = Instant::now();
        let flipped = expiry::flip(connection, &ids, now).await?;
        let flip = Flip { coupons: chunk.len(), expired: flipped, took: began.elapsed() };
        counter!(FLIPS.name).increment(flipped);
        let done = clock.now();
        for due in chunk {
            let late = (done - due.valid_until).to_std().unwrap_or_default();
            histogram!(LATENESS.name).record(late.as_secs_f64());
        }
        // Only after the flip: a failed chunk is repeated.
        self.due.truncate(left);
        // After all measurements, so that tracing does not count as flip time.
        if trace::is_on() {
            trace_flips(connection, &ids, now).await;
        }
        Ok(Some(flip))
    }
}

/// Records the flip, the last hop of a claim's trace. Failures are only logged: a missing span harms no coupon.
async fn trace_flips(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
    flipped_at: DateTime<Utc>,
) {
    match expiry::trace_parents(connection, ids, flipped_at).await {
        Ok(parents) => parents.iter().for_each(|parent| {
            let mut span =
                trace::follow_since("expiry-worker.flip", Kind::Internal, parent, flipped_at);
            span.set("db.system.name", "mysql");
        }),
        Err(error) => debug!(error = runtime::report(&error), "spans of a flip are not recorded"),
    }
}
