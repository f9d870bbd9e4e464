//! One step of a drain: flips one chunk of the due coupons of a shard.

use std::time::Duration;

use chrono::{DateTime, Utc};
use coupon::CouponId;
use metrics::{counter, histogram};
use mysql_store::{
    MySqlConnection, StoreError,
    expiry::{self, Due, FLIP_MAX},
};
use runtime::{
    Clock,
    trace::{self, Kind},
};
use tokio::time::Instant;
use tracing::debug;

use crate::metrics::{FLIPS, LATENESS};

/// Coupons read at once, enough for several flips: each read of the index scans past the recently flipped entries until
/// the server purges them.
const READ_MAX: usize = 8 * FLIP_MAX;

/// A shard that is being drained: its coupons that are due and not flipped yet. Another worker may flip them first; the
/// guard of the flip handles that.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// At most [`READ_MAX`], in descending order of deadline.
    due: Vec<Due>,
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// There may be more.
    More,
    /// Nothing more is due. Holds the shard's next deadline.
    Until(Option<DateTime<Utc>>),
    /// The earliest coupon is due by our clock but not by MySQL's, which is behind.
    TooEarly(DateTime<Utc>),
}

/// A flipping statement, as input for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flip {
    /// Coupons passed to the statement.
    pub(crate) coupons: usize,
    pub(crate) took: Duration,
}

impl Drain {
    /// Flips at most `chunk` due coupons of `shard` in one statement. Every call on one `Drain` must pass the same
    /// shard.
    pub(crate) async fn step(
        &mut self,
        connection: &mut MySqlConnection,
        shard: u8,
        chunk: usize,
        clock: &Clock,
    ) -> Result<(Drained, Option<Flip>), StoreError> {
        let now = clock.now();
        let mut all = false;
        if self.due.is_empty() {
            let most = u32::try_from(READ_MAX).unwrap_or(u32::MAX);
            self.due = expiry::due(connection, shard, now, most).await?;
            self.due.reverse();
            all = self.due.len() <= chunk;
        }
        let flip = self.flip(connection, chunk, now, clock).await?;
        if !all {
            return Ok((Drained::More, flip));
        }
        let drained = match expiry::next_deadline(connection, shard).await? {
            Some(next) if next <= now && flip.is_none() => Drained::TooEarly(next),
            next => Drained::Until(next),
        };
        Ok((drained, flip))
    }

    /// Flips the next `most` coupons; `None` if there are none.
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
