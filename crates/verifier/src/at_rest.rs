//! Waits until a platform is at rest, judged by its state: nothing is queued, in flight, due or being moved to a new validity,
//! every change is in the topic, and every topic is consumed. Without new input each of these conditions stays true
//! once it is.

use std::{collections::HashMap, time::Duration};

use mysql_store::{
    connect, validity_move,
    verify::{self, CouponCounts},
};
use runtime::Clock;
use tokio::time::{Instant, timeout};
use topic::{Event, TableReader, UserCouponRow, committed_lag, decode};

use crate::{
    Sources, VerifyError,
    checks::{gate, lag, queued},
    topics,
};

/// How long a read of the topic waits for the next change; this is also the polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Messages read at a time.
const BATCH: usize = 1024;

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
    loop {
        let waiting_for = match unrest(sources, clock, &mut published).await {
            Ok(None) => return Ok(()),
            Ok(Some(unrest)) => unrest,
            Err(error) => runtime::report(&error),
        };
        if Instant::now() >= deadline {
            return Err(VerifyError::NotAtRest { within, waiting_for });
        }
        // An unreachable server fails at once; this is the pause then.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Describes a condition that is not at rest yet, if any.
async fn unrest(
    sources: &Sources,
    clock: &Clock,
    published: &mut Published,
) -> Result<Option<String>, VerifyError> {
    // Fails after a restart of its Redis until a process of the platform has connected to it.
    sources.view.generation(coupon::UserId(0)).await?;
    if let Some(unfinished) = gate::unfinished(sources, clock.now()).await? {
        return Ok(Some(unfinished));
    }
    if let Some(in_flight) = in_flight(sources).await? {
        return Ok(Some(in_flight));
    }
    if let Some(queued) = queued::waiting(sources).await?.pop() {
        return Ok(Some(queued));
    }
    let moves = validity_moves(sources).await?;
    if moves > 0 {
        return Ok(Some(format!("{moves} moves to a new validity are under way")));
    }
    let counts = counts(sources, clock).await?;
    if counts.due > 0 {
        return Ok(Some(format!("{} coupons are due", counts.due)));
    }
    published.catch_up(sources, counts.changes).await?;
    if published.changes != counts.changes {
        let (topic, truth) = (published.changes, counts.changes);
        return Ok(Some(format!("{topic} of {truth} changes are in the topic")));
    }
    for (group, topic) in lag::groups(&sources.topics) {
        let lag = committed_lag(&sources.brokers, &group, &topic).await?;
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

async fn in_flight(sources: &Sources) -> Result<Option<String>, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    for balance in verify::balances(&mut connection).await? {
        let (template, epoch) = (balance.template, balance.epoch);
        let in_flight = sources.gate.in_flight_count(template, epoch).await?;
        if in_flight > 0 {
            return Ok(Some(format!("template {template} has {in_flight} claims in flight")));
        }
    }
    Ok(None)
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
    reader: Option<TableReader>,
    versions: HashMap<i64, i64>,
    changes: i64,
}

impl Published {
    /// Reads until `changes` are known or the topic has nothing more for now.
    async fn catch_up(&mut self, sources: &Sources, changes: i64) -> Result<(), VerifyError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let topic = sources.topics.user_coupon();
                none.insert(TableReader::open(&sources.brokers, &topic).await?)
            }
        };
        while self.changes < changes || !reader.caught_up() {
            let Ok(batch) = timeout(LOOK_EVERY, reader.next_batch(BATCH)).await else { break };
            let payloads = batch?.into_iter().filter_map(|message| message.payload);
            let events = payloads.filter_map(|bytes| decode::<Event<UserCouponRow>>(&bytes).ok());
            for row in events.filter_map(|event| event.after) {
                let version = self.versions.entry(row.id).or_default();
                if row.version > *version {
                    self.changes += row.version - *version;
                    *version = row.version;
                }
            }
        }
        Ok(())
    }
}
