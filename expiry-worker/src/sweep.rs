//! The slow sweep: what did the wake-up path lose?
//!
//! It looks at the index as a start does. A coupon that ends before anything known of its shard, and
//! whose row is old enough that its wake-up must have come, was lost by the path: it is counted, its
//! deadline taken over, and the same drain flips it. What is younger is on its way and left alone, so
//! that the sweep never hides a loss that it does not count.

use std::time::Duration;

use chrono::{DateTime, Utc};
use coupon::expiry_shards;
use metrics::{counter, gauge};
use mysql_store::{MySqlConnection, StoreError, expiry};
use tracing::error;

use crate::{
    metrics::{OLDEST_OVERDUE, OVERDUE, SWEEP_FINDS, SWEEPS},
    wake_ups::Deadlines,
};

/// Counting ends here in each shard; a storm needs no exact number.
const COUNTED_MAX: u32 = 10_000;

/// Sweeps the owned shards for coupons that the path has lost although they are older than
/// `lost_after`.
pub(crate) async fn sweep(
    connection: &mut MySqlConnection,
    deadlines: &mut Deadlines,
    now: DateTime<Utc>,
    lost_after: Duration,
) -> Result<(), StoreError> {
    for (shard, known) in deadlines.shards() {
        // A shard that is being drained has its deadlines met as we go.
        if known.is_some_and(|known| known <= now) {
            continue;
        }
        let changed_by = now - lost_after;
        let lost = expiry::untold(connection, shard, known, changed_by, COUNTED_MAX).await?;
        if lost > 0 {
            error!(shard, lost, "unused coupons that no wake-up told of");
            counter!(SWEEP_FINDS).increment(lost);
            deadlines.look_now(shard);
        }
    }
    counter!(SWEEPS).increment(1);
    Ok(())
}

/// The shards that nobody looks at, by what the index says: their earliest coupon is past its deadline for longer
/// than `lost_after`. Who owns them is for the group to say; that nobody does the work can be seen here alone.
pub(crate) async fn neglected(
    connection: &mut MySqlConnection,
    deadlines: &Deadlines,
    now: DateTime<Utc>,
    lost_after: Duration,
) -> Result<Vec<u8>, StoreError> {
    let own: Vec<u8> = deadlines.shards().into_iter().map(|(shard, _)| shard).collect();
    let mut neglected = Vec::new();
    for shard in expiry_shards().filter(|shard| !own.contains(shard)) {
        let deadline = expiry::next_deadline(connection, shard).await?;
        if deadline.is_some_and(|deadline| deadline < now - lost_after) {
            neglected.push(shard);
        }
    }
    Ok(neglected)
}

/// Counts what is past its deadline and not flipped yet, for the gauges.
pub(crate) async fn count_overdue(
    connection: &mut MySqlConnection,
    deadlines: &Deadlines,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (mut overdue, mut oldest) = (0, Duration::ZERO);
    for (shard, known) in deadlines.shards() {
        let Some(known) = known.filter(|known| *known <= now) else { continue };
        let count = expiry::overdue(connection, shard, now, COUNTED_MAX).await?;
        if count > 0 && known > DateTime::UNIX_EPOCH {
            oldest = oldest.max((now - known).to_std().unwrap_or_default());
        }
        overdue += count;
    }
    gauge!(OVERDUE).set(f64::from(u32::try_from(overdue).unwrap_or(u32::MAX)));
    gauge!(OLDEST_OVERDUE).set(oldest.as_secs_f64());
    Ok(())
}
