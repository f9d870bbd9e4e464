//! The slow sweep: what did the wake-up path lose?
//!
//! It looks at the index as a start does and lowers the deadlines it finds too late; the same drain
//! flips the coupons. Only what is long overdue counts as a find: a coupon whose wake-up is still on
//! its way is not lost.

use std::time::Duration;

use chrono::{DateTime, Utc};
use metrics::{counter, gauge};
use mysql_store::{MySqlConnection, StoreError, expiry};
use tracing::error;

use crate::{
    metrics::{OLDEST_OVERDUE, OVERDUE, SWEEP_FINDS, SWEEPS},
    wake_ups::Deadlines,
};

/// From here on an overdue coupon counts as lost by the path: far above the way of a change through
/// binlog and topics, far below the sweep's interval.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// Counting ends here in each shard; a storm needs no exact number.
const COUNTED_MAX: u32 = 10_000;

/// Sweeps the owned shards; returns how many coupons only the sweep found.
pub(crate) async fn sweep(
    connection: &mut MySqlConnection,
    deadlines: &mut Deadlines,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let mut finds = 0;
    for (shard, known) in deadlines.shards() {
        // A shard that is being drained has its deadlines met as we go.
        if known.is_some_and(|known| known <= now) {
            continue;
        }
        let Some(next) = expiry::next_deadline(connection, shard).await? else { continue };
        if !deadlines.lower(shard, next) {
            continue;
        }
        let lost = expiry::overdue(connection, shard, now - LOST_AFTER, COUNTED_MAX).await?;
        if lost > 0 {
            error!(shard, lost, oldest.deadline = %next, "overdue coupons that no wake-up led to");
            finds += lost;
        }
    }
    counter!(SWEEP_FINDS).increment(finds);
    counter!(SWEEPS).increment(1);
    Ok(finds)
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
