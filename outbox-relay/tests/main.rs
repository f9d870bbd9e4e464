//! The relay on real servers: `./dev test`, or `./dev servers up` first.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod faults;
mod harness;

use coupon::{AcceptAfter, Epoch, TemplateId};
use topic::claims_partition;

use crate::harness::{Harness, PARTITIONS, TEMPLATE};

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_reaches_its_templates_partition_and_leaves_the_outbox() {
    let test = Harness::new("relay").await;
    let other = TemplateId(2);
    test.open(other).await;
    // One waits before the relay starts, and the other does not.
    let first = test.queue(TEMPLATE, AcceptAfter::Gate).await;
    let relay = test.start().await;
    let second = test.queue(other, AcceptAfter::Replica).await;
    for template in [TEMPLATE, other] {
        test.until_empty(template).await;
    }
    let published = test.published().await;
    assert_eq!(published.len(), 2);
    for queued in [first, second] {
        let template = queued.claim.template_id;
        let found = published.iter().find(|(_, one)| one.admission.claim == queued.claim);
        let (partition, one) = found.unwrap();
        assert_eq!(*partition, claims_partition(template, 0, PARTITIONS));
        assert_eq!((one.admission.epoch, &one.admission.numbers[..]), (Epoch(7), &[1][..]));
        assert_eq!(one.admitted_at, queued.claim.claimed_at);
    }
    relay.stop().await.unwrap();
}

/// The api publishes such a claim itself, and a second message would only cost time.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_answered_after_the_topic_has_it_is_published_only_if_its_api_does_not() {
    let test = Harness::new("relay after topic").await;
    let relay = test.start().await;
    let confirmed = test.queue(TEMPLATE, AcceptAfter::Topic).await;
    assert!(test.confirm(&confirmed).await);
    let left = test.queue(TEMPLATE, AcceptAfter::Topic).await;
    test.until_empty(TEMPLATE).await;
    assert_eq!(test.published_ids().await, [left.claim.id]);
    relay.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_two_relays_share_an_outbox_under_a_name_each() {
    const CLAIMS: usize = 2_000;
    let test = Harness::new("two relays").await;
    let one = test.start().await;
    let other = test.start().await;
    assert_eq!(test.names_held(), 4);
    test.queue_many(CLAIMS).await;
    test.until_empty(TEMPLATE).await;
    let mut published = test.published_ids().await;
    published.dedup();
    assert_eq!(published.len(), CLAIMS);
    one.stop().await.unwrap();
    assert_eq!(test.names_held(), 2, "names are given back");
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_nobody_can_read_is_set_aside_and_holds_up_no_other() {
    let test = Harness::new("unreadable entry").await;
    let before = test.queue(TEMPLATE, AcceptAfter::Gate).await;
    test.spoil(TEMPLATE).await;
    let behind = test.queue(TEMPLATE, AcceptAfter::Gate).await;
    let relay = test.start().await;
    test.until_empty(TEMPLATE).await;
    assert_eq!(test.published_ids().await, [before.claim.id, behind.claim.id]);
    let letters = test.dead_letters().await;
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert!(letter.header("source-topic").unwrap().ends_with(b".claims"));
    assert!(letter.header("reason").is_some() && letter.header("source-entry").is_some());
    assert_eq!(letter.payload.as_deref(), Some(&b"no=claim"[..]));
    assert!(testkit::counted("outbox_relay_refused_total", "unreadable") >= 1);
    relay.stop().await.unwrap();
}
