//! One step: flip one chunk of what is due in a shard.

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

/// Coupons read at once, for so many flips: a look at the index passes over all that was flipped a
/// moment ago, until the server has purged it.
const READ_MAX: usize = 8 * FLIP_MAX;

/// A shard on its way: what of it is due and not flipped yet. Another worker may have been faster by
/// then; the flip's own guard knows.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// At most [`READ_MAX`], the earliest last.
    due: Vec<Due>,
}

/// What a step left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// There may be more.
    More,
    /// Nothing is due any more; the next deadline of the shard.
    Until(Option<DateTime<Utc>>),
    /// Something is due by our clock and not by MySQL's, which is behind.
    TooEarly(DateTime<Utc>),
}

/// A statement that flipped, for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flip {
    /// How many coupons it was given.
    pub(crate) coupons: usize,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Drain {
    /// Flips at most `chunk` coupons, one statement, of what is due in `shard`, which is always the same.
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

    /// Flips the next `most`, if there are any.
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
        counter!(FLIPS).increment(flipped);
        let done = clock.now();
        for due in chunk {
            let late = (done - due.valid_until).to_std().unwrap_or_default();
            histogram!(LATENESS).record(late.as_secs_f64());
        }
        // Only now: after a failure the same chunk comes again.
        self.due.truncate(left);
        // Behind all that is measured and owed: its time is no flip's.
        if trace::is_on() {
            tell_traces(connection, &ids, now).await;
        }
        Ok(Some(flip))
    }
}

/// The flip is the last hop of a claim's trace. That nobody is told of one harms no coupon.
async fn tell_traces(
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
        Err(error) => debug!(error = runtime::report(&error), "traces of a flip are not told"),
    }
}
