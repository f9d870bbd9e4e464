//! I12: nothing is left to consume. (The other half of I12, no drift, is checked by I6.)

use std::time::Duration;

use tokio::time::{Instant, sleep};
use topic::TopicNames;

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// Time for all groups to consume the messages that were there when the check began. Without faults they need much
/// less, and messages may come at any time: a hold lapses, a user claims.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// Interval between reads of a group's offsets.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// I12: every group has committed, within [`CATCH_UP_MAX`], to the end that its topic had when the check began.
pub(crate) async fn is_zero(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I12", "nothing is left to consume");
    let groups = groups(&sources.topics);
    let give_up = Instant::now() + CATCH_UP_MAX;
    let over = count(groups.len(), "group");
    for (group, topic) in groups {
        let ends = sources.offsets.topic_offsets(&topic).await?;
        let lag = loop {
            let lag = sources.offsets.committed_lag_before(&group, &topic, &ends).await?;
            if lag == 0 || Instant::now() >= give_up {
                break lag;
            }
            sleep(LOOK_EVERY).await;
        };
        findings.expect(lag == 0, || format!("{group} is {lag} messages behind on {topic}"));
    }
    Ok(findings.over(over))
}

/// The platform's consumer groups, each with its topic.
pub(crate) fn groups(topics: &TopicNames) -> [(String, String); 6] {
    let group = |process: &str| format!("{}.{process}", topics.prefix());
    [
        (topics.views_group(), topics.user_coupon()),
        (group("sync-consumer.wake-ups"), topics.user_coupon()),
        (group("sync-consumer.movements"), topics.stock_movement()),
        (group("expiry-worker"), topics.expiry()),
        (topics.claim_lander_group(), topics.claims()),
        (topics.payments_group(), topics.payments()),
    ]
}
