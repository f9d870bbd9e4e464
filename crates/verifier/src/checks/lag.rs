//! I12: nothing is left to consume. (The other half of I12, no drift, is checked by I6.)

use topic::{TopicNames, committed_lag};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// I12: every group has committed to the end of its topic.
pub(crate) async fn is_zero(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I12", "nothing is left to consume");
    let groups = groups(&sources.topics);
    let over = count(groups.len(), "group");
    for (group, topic) in groups {
        let lag = committed_lag(&sources.brokers, &group, &topic).await?;
        findings.expect(lag == 0, || format!("{group} is {lag} messages behind on {topic}"));
    }
    Ok(findings.over(over))
}

/// The platform's consumer groups, each with its topic.
pub(crate) fn groups(topics: &TopicNames) -> [(String, String); 6] {
    let group = |process: &str| format!("{}.{process}", topics.prefix());
    [
        (group("sync-consumer"), topics.user_coupon()),
        (group("sync-consumer.wake-ups"), topics.user_coupon()),
        (group("sync-consumer.movements"), topics.stock_movement()),
        (group("expiry-worker"), topics.expiry()),
        (topics.claim_lander_group(), topics.claims()),
        (topics.payments_group(), topics.payments()),
    ]
}
