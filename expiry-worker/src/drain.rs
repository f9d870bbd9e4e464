//! One step: flip one chunk of what is due in a shard.

use chrono::{DateTime, Utc};
use metrics::{counter, histogram};
use mysql_store::{MySqlConnection, StoreError, expiry};
use runtime::Clock;

use crate::metrics::{FLIPS, LATENESS};

/// Coupons of one transaction: enough that its flush to disk counts for little (a chunk of a thousand
/// takes some 20 ms), little enough that its row locks are gone before a use of one of them notices.
const CHUNK: u32 = 1024;

/// What a step left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// A full chunk was flipped: there may be more.
    More,
    /// Nothing is due any more; the next deadline of the shard.
    Until(Option<DateTime<Utc>>),
    /// Something is due by our clock and not by MySQL's, which is behind.
    TooEarly(DateTime<Utc>),
}

/// Flips at most a chunk of what is due in `shard`.
pub(crate) async fn step(
    connection: &mut MySqlConnection,
    shard: u8,
    clock: &Clock,
) -> Result<Drained, StoreError> {
    let now = clock.now();
    let due = expiry::due(connection, shard, now, CHUNK).await?;
    if !due.is_empty() {
        let ids: Vec<_> = due.iter().map(|due| due.id).collect();
        let flipped = expiry::flip(connection, &ids, now).await?;
        counter!(FLIPS).increment(flipped);
        let done = clock.now();
        for due in &due {
            let late = (done - due.valid_until).to_std().unwrap_or_default();
            histogram!(LATENESS).record(late.as_secs_f64());
        }
    }
    if due.len() == CHUNK as usize {
        return Ok(Drained::More);
    }
    Ok(match expiry::next_deadline(connection, shard).await? {
        Some(next) if next <= now && due.is_empty() => Drained::TooEarly(next),
        next => Drained::Until(next),
    })
}
