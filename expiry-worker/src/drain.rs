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
}

/// How much one step may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Coupons of a flip.
    pub(crate) chunk: usize,
    /// Returns at once.
    pub(crate) returns: usize,
}

/// Where a drain is after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// There may be more.
    More,
    /// Nothing more is due. Holds the shard's next deadline.
    Until(Option<DateTime<Utc>>),
    /// The earliest coupon is due by our clock but not by MySQL's, which is behind.
    TooEarly(DateTime<Utc>),
    /// Nothing more is due but holds that could not lapse. They are tried again then.
    PutOff(DateTime<Utc>),
}

/// A flipping statement, as input for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flip {
    /// Coupons passed to the statement.
    pub(crate) coupons: usize,
    pub(crate) took: Duration,
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) drained: Drained,
    pub(crate) flip: Option<Flip>,
    pub(crate) returned: Option<Returned>,
}

impl Drain {
    /// Lapses and flips a share of the due coupons of `shard`, holds first: others wait for their stock. Every call on one
    /// `Drain` must pass the same shard.
    pub(crate) async fn step(
        &mut self,
        connection: &mut MySqlConnection,
        shard: u8,
        share: Share,
        lapser: &Lapser,
    ) -> anyhow::Result<Step> {
        let now = lapser.clock.now();
        let mut all = false;
        if self.is_empty() {
            connect::within(self.read(connection, shard, now)).await?;
            all = self.due.len() <= share.chunk && self.holds.fit(share.returns);
        }
        let returned = lapser.step(&mut self.holds, share.returns).await.context("a lapse")?;
        let flipped = self.flip(connection, share.chunk, now, &lapser.clock);
        let flip = match connect::within(flipped).await {
            Ok(flip) => flip,
            // A use locked one of the coupons: the same chunk is tried again.
            Err(error) if error.is_conflict() => None,
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

    async fn read(
        &mut self,
        connection: &mut MySqlConnection,
        shard: u8,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let most = u32::try_from(READ_MAX).unwrap_or(u32::MAX);
        let behind = self.holds.behind();
        self.holds.add(&expiry::due_holds(connection, shard, behind, now, most).await?);
        self.due = expiry::due(connection, shard, now, most).await?;
        self.due.reverse();
        Ok(())
    }

    /// Where the drain is after everything that was due at `now` has had its turn.
    async fn ended(
        &self,
        connection: &mut MySqlConnection,
        shard: u8,
        now: DateTime<Utc>,
        step: &Step,
    ) -> Result<Drained, StoreError> {
        if self.holds.has_put_off() {
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
        let flip = Flip { coupons: chunk.len(), took: began.elapsed() };
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
