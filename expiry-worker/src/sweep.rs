//! The slow sweep: finds coupons whose wake-up was lost.
//!
//! It reads the index as a start does. A coupon counts as lost if it ends before the known deadline of its shard and
//! its row is old enough that its wake-up must have arrived. The sweep counts lost coupons and schedules the shard for
//! an immediate drain. It ignores younger rows, whose wake-ups may still be on the way, so that it never hides a loss
//! without counting it.

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, Utc};
use coupon::expiry_shards;
use metrics::{counter, gauge};
use mysql_store::{MySqlConnection, StoreError, expiry};
use tracing::error;

use crate::{
    deadlines::Deadlines,
    metrics::{HELD, OLDEST_OVERDUE, OVERDUE, SWEEP_FINDS, SWEEPS},
    unowned_shards::First,
};

/// Upper bound of the count per shard; a storm needs no exact number.
const COUNTED_MAX: u32 = 10_000;

/// Sweeps the watched shards for coupons without a wake-up whose last change is at least `lost_after` ago.
pub(crate) async fn sweep(
    connection: &mut MySqlConnection,
    deadlines: &mut Deadlines,
    now: DateTime<Utc>,
    lost_after: Duration,
) -> Result<(), StoreError> {
    for (shard, known) in deadlines.shards() {
        // The shard is due or being drained, which reads its deadlines anyway. A shard that was put off had its
        // wake-up.
        if known.is_some_and(|known| known <= now) || deadlines.is_put_off(shard) {
            continue;
        }
        let changed_by = now - lost_after;
        let lost = expiry::unannounced(connection, shard, known, changed_by, COUNTED_MAX).await?;
        if lost > 0 {
            error!(shard, lost, "coupons with a deadline that no wake-up announced");
            counter!(SWEEP_FINDS.name).increment(lost);
            deadlines.look_now(shard);
        }
    }
    counter!(SWEEPS.name).increment(1);
    Ok(())
}

/// Returns the unwatched shards whose earliest coupon has been overdue for longer than `lost_after`, with the first of
/// their due coupons. The group decides who owns a shard, but only the index shows that no worker drains it.
pub(crate) async fn overdue_elsewhere(
    connection: &mut MySqlConnection,
    deadlines: &Deadlines,
    now: DateTime<Utc>,
    lost_after: Duration,
) -> Result<BTreeMap<u8, First>, StoreError> {
    let own: Vec<u8> = deadlines.shards().into_iter().map(|(shard, _)| shard).collect();
    let mut overdue = BTreeMap::new();
    for shard in expiry_shards().filter(|shard| !own.contains(shard)) {
        let deadline = expiry::next_deadline(connection, shard).await?;
        if deadline.is_some_and(|deadline| deadline < now - lost_after) {
            let unused = expiry::due(connection, shard, None, now, 1).await?.pop();
            let held = expiry::due_holds(connection, shard, None, now, 1).await?.pop();
            overdue.insert(shard, First { unused, held });
        }
    }
    Ok(overdue)
}

/// Updates the gauge of coupons that are held.
pub(crate) async fn count_held(
    connection: &mut MySqlConnection,
    deadlines: &Deadlines,
) -> Result<(), StoreError> {
    let mut held = 0;
    for (shard, _) in deadlines.shards() {
        held += expiry::held(connection, shard, COUNTED_MAX).await?;
    }
    gauge!(HELD.name).set(held as f64);
    Ok(())
}

/// Updates the gauges of coupons that are past their deadline and have not ended yet.
pub(crate) async fn count_overdue(
    connection: &mut MySqlConnection,
    deadlines: &Deadlines,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut overdue = 0;
    let mut oldest = Duration::ZERO;
    for (shard, known) in deadlines.shards() {
        let known = match known.filter(|known| *known <= now) {
            // Only the index shows when a shard that was put off was due.
            _ if deadlines.is_put_off(shard) => expiry::next_deadline(connection, shard).await?,
            known => known,
        };
        let Some(known) = known else { continue };
        let count = expiry::overdue(connection, shard, now, COUNTED_MAX).await?;
        if count > 0 && known > DateTime::UNIX_EPOCH {
            oldest = oldest.max((now - known).to_std().unwrap_or_default());
        }
        overdue += count;
    }
    gauge!(OVERDUE.name).set(f64::from(u32::try_from(overdue).unwrap_or(u32::MAX)));
    gauge!(OLDEST_OVERDUE.name).set(oldest.as_secs_f64());
    Ok(())
}
