//! Waits until a platform is at rest, judged by its state: nothing is queued, in flight, due or being moved to a new
//! validity, every change is in the topic, and every topic is consumed. Without new input, each condition stays true
//! once it holds.

use std::{collections::HashMap, time::Duration};

use mysql_store::{
    connect, validity_move,
    verify::{self, CouponCounts},
};
use runtime::{Backoff, Clock};
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use topic::{Message, TableReader, decode};

use crate::{
    Sources, VerifyError,
    checks::{gates, lag, queued},
    outcome::Findings,
    topics::{self, each_message},
};

/// How long a read of the topic waits for the next change.
const READ_WAIT: Duration = Duration::from_millis(50);

/// First pause between looks. The pauses grow up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Longest pause between looks. Groups commit once a second.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// Messages read at a time.
const BATCH: usize = 1024;

/// Coupons whose versions are in memory at a time: some fifty megabytes.
const COUPONS_PER_PART: i64 = 1_000_000;

/// Waits until the platform is at rest. Unreachable servers are retried: they may come back.
///
/// # Errors
/// [`VerifyError::NotAtRest`], with the condition still missing after `within`.
pub async fn at_rest(
    sources: &Sources,
    clock: &Clock,
    within: Duration,
) -> Result<(), VerifyError> {
    let deadline = Instant::now() + within;
    let mut published = Published::default();
    let mut pause = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let waiting_for = match unrest(sources, clock, &mut published).await {
            Ok(None) => return Ok(()),
            Ok(Some(unrest)) => unrest,
            Err(error) => runtime::report(&error),
        };
        if Instant::now() >= deadline {
            return Err(VerifyError::NotAtRest { within, waiting_for });
        }
        // Also the pause between retries of an unreachable server, which fails at once.
        pause.wait().await;
    }
}

/// Describes a condition that is not at rest yet, if any.
async fn unrest(
    sources: &Sources,
    clock: &Clock,
    published: &mut Published,
) -> Result<Option<String>, VerifyError> {
    // Fails after a restart of the view's Redis until a process of the platform has connected to it.
    sources.view.generation(coupon::UserId(0)).await?;
    if let Some(unfinished) = gates::unfinished(sources, clock.now()).await? {
        return Ok(Some(unfinished));
    }
    let mut gates = Findings::of("I7", "nothing is in flight or queued");
    in_flight(sources, &mut gates).await?;
    queued::waiting(sources, &mut gates).await?;
    if let Some(waiting) = gates.first() {
        return Ok(Some(waiting));
    }
    let moves = validity_moves(sources).await?;
    if moves > 0 {
        return Ok(Some(format!("{moves} moves to a new validity are under way")));
    }
    let counts = counts(sources, clock).await?;
    if counts.due > 0 {
        return Ok(Some(format!("{} coupons are due", counts.due)));
    }
    let topic = published.changes(sources, &counts).await?;
    if topic != counts.changes {
        let truth = counts.changes;
        return Ok(Some(format!("{topic} of {truth} changes are in the topic")));
    }
    for (group, topic) in lag::groups(&sources.topics) {
        let lag = sources.offsets.committed_lag(&group, &topic).await?;
        if lag != 0 {
            return Ok(Some(format!("{group} is {lag} messages behind on {topic}")));
        }
    }
    if let Some(difference) = topics::difference(sources).await? {
        return Ok(Some(difference));
    }
    // If anything changed during these checks, they start over.
    let moved = self::counts(sources, clock).await? != counts;
    Ok(moved.then(|| "coupons are changing".to_owned()))
}

async fn in_flight(sources: &Sources, findings: &mut Findings) -> Result<(), VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    for (template, epoch) in verify::epochs(&mut connection).await? {
        let in_flight = sources.gate.in_flight_count(template, epoch).await;
        let in_flight = gates::readable(template, in_flight, findings)?.unwrap_or(0);
        findings.expect(in_flight == 0, || {
            format!("template {template} has {in_flight} claims in flight")
        });
    }
    Ok(())
}

async fn validity_moves(sources: &Sources) -> Result<i64, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    Ok(validity_move::under_way(&mut connection).await?)
}

async fn counts(sources: &Sources, clock: &Clock) -> Result<CouponCounts, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    Ok(verify::count_coupons(&mut connection, None, clock.now()).await?)
}

/// Number of changes in the coupons' topic. A coupon's version counts its changes, so the sum over all coupons equals
/// MySQL's exactly when the latest change of each has arrived.
#[derive(Default)]
struct Published {
    /// Kept between calls, so that each reads only new messages.
    reader: Option<TableReader>,
    all: Versions,
}

impl Published {
    /// Counts the changes in the topic. The versions of fewer than [`COUPONS_PER_PART`] coupons are kept between calls.
    /// For more, each call reads the whole topic once for each part of them, so that memory stays bounded.
    async fn changes(
        &mut self,
        sources: &Sources,
        truth: &CouponCounts,
    ) -> Result<i64, VerifyError> {
        let parts = truth.all() / COUPONS_PER_PART + 1;
        if parts == 1 {
            self.catch_up(sources, truth.changes).await?;
            return Ok(self.all.changes);
        }
        *self = Self::default();
        let mut changes = 0;
        for part in 0..parts {
            let mut versions = Versions { parts, part, ..Versions::default() };
            let topic = sources.topics.user_coupon();
            each_message(sources, &topic, |message| versions.record(message)).await?;
            changes = versions.changes.saturating_add(changes);
        }
        Ok(changes)
    }

    /// Reads until `changes` are known or the topic has nothing more for now.
    async fn catch_up(&mut self, sources: &Sources, changes: i64) -> Result<(), VerifyError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let topic = sources.topics.user_coupon();
                none.insert(TableReader::open(&sources.brokers, &topic).await?)
            }
        };
        while self.all.changes < changes || !reader.caught_up() {
            let Ok(batch) = timeout(READ_WAIT, reader.next_batch(BATCH)).await else { break };
            match batch {
                Ok(batch) => batch.iter().for_each(|message| self.all.record(message)),
                Err(error) => {
                    // Of a topic that was made anew, nothing that was read counts.
                    *self = Self::default();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

/// The latest versions in the topic of one part of the coupons.
struct Versions {
    parts: i64,
    part: i64,
    latest: HashMap<i64, i64>,
    /// Their sum.
    changes: i64,
}

impl Default for Versions {
    /// Of all coupons.
    fn default() -> Self {
        Self { parts: 1, part: 0, latest: HashMap::new(), changes: 0 }
    }
}

impl Versions {
    fn record(&mut self, message: &Message) {
        let event = message.payload.as_deref().and_then(|bytes| decode(bytes).ok());
        if let Some(Change { after: Some(row) }) = event {
            self.add(&row);
        }
    }

    fn add(&mut self, row: &Row) {
        if row.id.rem_euclid(self.parts) != self.part {
            return;
        }
        let latest = self.latest.entry(row.id).or_default();
        if row.version > *latest {
            // Versions that no version writes must not end the count: it then differs from MySQL's.
            let risen = row.version.saturating_sub(*latest);
            self.changes = self.changes.saturating_add(risen);
            *latest = row.version;
        }
    }
}

/// The part of an event that is counted.
#[derive(Deserialize)]
struct Change {
    after: Option<Row>,
}

#[derive(Deserialize)]
struct Row {
    id: i64,
    version: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changes_of_all_parts_are_those_of_all_coupons_however_often_messages_come() {
        let rows = [(1, 1), (2, 1), (2, 3), (2, 2), (7, 1), (1, 1), (-5, 4), (2, 3)];
        let count = |parts: i64| -> i64 {
            let of = |part| {
                let mut versions = Versions { parts, part, ..Versions::default() };
                for (id, version) in rows {
                    versions.add(&Row { id, version });
                }
                versions.changes
            };
            (0..parts).map(of).sum()
        };
        assert_eq!([1, 2, 3, 100].map(count), [1 + 3 + 1 + 4; 4]);
    }

    #[test]
    fn versions_at_the_ends_of_their_type_do_not_end_the_count() {
        let mut versions = Versions::default();
        for (id, version) in [(1, i64::MAX), (2, i64::MAX), (3, i64::MIN), (i64::MIN, 1)] {
            versions.add(&Row { id, version });
        }
        assert_eq!(versions.changes, i64::MAX);
    }
}
