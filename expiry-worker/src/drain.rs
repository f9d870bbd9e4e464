//! One step: flip one chunk of what is due in a shard.

use std::time::Duration;

use chrono::{DateTime, Utc};
use metrics::{counter, histogram};
use mysql_store::{
    MySqlConnection, StoreError,
    expiry::{self, FLIP_MAX},
};
use runtime::Clock;
use tokio::time::Instant;

use crate::{
    metrics::{FLIPS, LATENESS},
    pace::Pace,
};

/// What a step left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// A full chunk was flipped: there may be more, after this rest.
    More(Duration),
    /// Nothing is due any more; the next deadline of the shard.
    Until(Option<DateTime<Utc>>),
    /// Something is due by our clock and not by MySQL's, which is behind.
    TooEarly(DateTime<Utc>),
}

/// Flips at most a chunk, one statement, of what is due in `shard`.
pub(crate) async fn step(
    connection: &mut MySqlConnection,
    shard: u8,
    clock: &Clock,
    pace: &mut Pace,
) -> Result<Drained, StoreError> {
    let now = clock.now();
    let chunk = u32::try_from(FLIP_MAX).unwrap_or(u32::MAX);
    let due = expiry::due(connection, shard, now, chunk).await?;
    if !due.is_empty() {
        let ids: Vec<_> = due.iter().map(|due| due.id).collect();
        let began = Instant::now();
        let flipped = expiry::flip(connection, &ids, now).await?;
        let rest = pace.rest_after(due.len(), began.elapsed());
        counter!(FLIPS).increment(flipped);
        let done = clock.now();
        for due in &due {
            let late = (done - due.valid_until).to_std().unwrap_or_default();
            histogram!(LATENESS).record(late.as_secs_f64());
        }
        if due.len() == FLIP_MAX {
            return Ok(Drained::More(rest));
        }
    }
    Ok(match expiry::next_deadline(connection, shard).await? {
        Some(next) if next <= now && due.is_empty() => Drained::TooEarly(next),
        next => Drained::Until(next),
    })
}
