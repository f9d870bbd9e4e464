//! A message that cannot be read, or that fails every time, stops no other claim: it is set aside, and its user learns
//! of it.

use coupon::{AcceptAfter, Admission, ClaimId, ClaimState, QueuedClaim, RejectReason, UserId};
use mysql_store::verify;
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    replay, until,
};
use topic::{ClaimsProducer, Producer, ProducerOptions, TopicNames, partitions};

use crate::queued::{
    accepted, after_gate, after_topic, assert_sold, gate_command, gate_key, outbox_is_empty,
    shopper, two_apis,
};

/// Longer than any trace parent: MySQL refuses the row.
const TOO_LONG: usize = 500;

/// Counts the messages that were set aside.
async fn set_aside(world: &World, topics: &TopicNames) -> usize {
    let brokers = &world.scope.endpoints.kafka_brokers;
    replay::published(brokers, &topics.dead_letter()).await.unwrap().len()
}

#[tokio::test]
async fn what_cannot_be_read_or_landed_is_set_aside_and_stops_no_other_claim() {
    let world = World::start_queued_with("queued poison", two_apis).await;
    let topics = TopicNames::new(world.scope.topic_prefix.clone());
    let brokers = world.scope.endpoints.kafka_brokers.clone();
    let template = world.template(100, after_topic).await;
    let mut promises = Promises::default();
    accepted(&mut promises, &shopper(&world, 0, 1), template).await;

    // A message that is no claim, in each partition.
    let producer = Producer::connect(&brokers, ProducerOptions::default()).await.unwrap();
    let claims = topics.claims();
    let count = partitions(&brokers, &claims).await.unwrap();
    for partition in 0..count {
        let sent = producer.send(&claims, Some(partition), b"key", b"no claim", &[]).await;
        sent.unwrap();
    }
    accepted(&mut promises, &shopper(&world, 0, 2), template).await;

    // A claim that MySQL refuses for a reason of its own.
    let epoch = world.sources.gate.meta(template).await.unwrap().unwrap().epoch;
    let id = ClaimId(77);
    let now = world.clock.now();
    let claim = testkit::claim(id, template, UserId(77), "too-long", 1, now);
    let claim = coupon::Claim { trace_parent: Some("x".repeat(TOO_LONG)), ..claim };
    let poison = QueuedClaim {
        admission: Admission { claim, epoch, numbers: vec![1] },
        accept_after: AcceptAfter::Topic,
        admitted_at: now,
        left_after: None,
    };
    let of_claims = ClaimsProducer::new(&brokers, &topics, ProducerOptions::default());
    of_claims.publish(&poison).await.unwrap();
    for user in 3..=6 {
        accepted(&mut promises, &shopper(&world, 1, user), template).await;
    }
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(6));
    let state = ClaimState::Rejected.code();
    let reason = RejectReason::Failed.code();
    let failed = format!(
        "select count(*) from claim where id = {id} and state = {state} and reason = {reason}"
    );
    let failed = async || verify::number(&mut world.mysql().await, &failed).await.unwrap();
    until(failed, |failed| *failed == 1).await;
    // The key has this answer from now on, even where the gate never saw it.
    let unlucky = shopper(&world, 0, 77);
    let again = async || unlucky.claim(template, Some("too-long"), 1).await.unwrap();
    let again = until(again, |answer| answer.status == 409).await;
    assert_eq!(again.code().as_deref(), Some("FAILED"), "{again:?}");
    let wanted = usize::try_from(count).unwrap() + 1;
    // Equal messages count once; the unreadable ones differ only in their place.
    until(async || set_aside(&world, &topics).await, |aside| *aside >= 2 && *aside <= wanted).await;
    assert_sold(&world, template, 6).await;
    world.end().await;
}

#[tokio::test]
async fn an_outbox_entry_that_cannot_be_read_is_set_aside_and_stops_no_other() {
    let mut world = World::start_queued_with("outbox poison", two_apis).await;
    let topics = TopicNames::new(world.scope.topic_prefix.clone());
    let template = world.template(100, after_gate).await;
    let mut promises = Promises::default();
    world.platform.relay.pause().unwrap();
    accepted(&mut promises, &shopper(&world, 0, 1), template).await;
    let outbox = gate_key(&world, template, "outbox");
    gate_command(&world, &["XADD", &outbox, "*", "no", "claim"]).await;
    accepted(&mut promises, &shopper(&world, 1, 2), template).await;
    world.platform.relay.resume().unwrap();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(2));
    outbox_is_empty(&world, template).await;
    until(async || set_aside(&world, &topics).await, |aside| *aside == 1).await;
    assert_sold(&world, template, 2).await;
    world.end().await;
}
