//! A gate that lets through more than there is: MySQL decides, and each claim that was accepted learns of it.

use std::time::Duration;

use coupon::{
    AcceptAfter, Admission, ClaimId, ClaimState, Epoch, QueuedClaim, RejectReason, TemplateId,
    UserId,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mysql_store::verify;
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    until,
};
use redis_gate::Meta;
use shopper::{Crowd, NewTemplate, Run, Wish};
use topic::{ClaimsProducer, ProducerOptions, TopicNames};
use verifier::{Sampler, Verdict};

use crate::{
    claims::full::epochs::{lose_gate, open_again},
    queued::{after_topic, gate_command, gate_key, two_apis},
};

/// Coupons of the template, for claims of two each.
const STOCK: i64 = 10;
const QUANTITY: u32 = 2;

/// Claims let through.
const CLAIMS: i64 = 10_000;

/// Time in which a busy machine decides all of them; an idle one needs ten seconds.
const DECIDED_WITHIN: Duration = Duration::from_mins(2);

/// Users of a lying gate that claim at a time, and how long they try.
const USERS_AT_ONCE: usize = 60;
const LIE_MAX: Duration = Duration::from_secs(10);

/// Messages in flight at a time.
const AT_A_TIME: usize = 256;

fn two_each(new: NewTemplate) -> NewTemplate {
    after_topic(NewTemplate { per_user_limit: QUANTITY, max_per_claim: QUANTITY, ..new })
}

/// Counts the claim rows of a template, of one state and reason or of all.
async fn rows(world: &World, template: TemplateId, of: &str) -> i64 {
    let count = format!("select count(*) from claim where template_id = {template}{of}");
    verify::number(&mut world.mysql().await, &count).await.unwrap()
}

/// A claim as such a gate would have let it through.
fn let_through(world: &World, template: TemplateId, epoch: Epoch, number: i64) -> QueuedClaim {
    let id = ClaimId(number);
    let now = world.clock.now();
    let claim = testkit::claim(id, template, UserId(number), "the-key", QUANTITY, now);
    QueuedClaim {
        admission: Admission { claim, epoch, numbers: vec![1, 2] },
        accept_after: AcceptAfter::Topic,
        admitted_at: now,
        left_after: Some(STOCK),
    }
}

#[tokio::test]
async fn of_10_000_claims_for_10_coupons_two_each_exactly_5_land() {
    let mut world = World::start_queued_with("lying gate", two_apis).await;
    let template = world.template(STOCK, two_each).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    open_again(&world, template, 0).await;
    let epoch = world.sources.gate.meta(template).await.unwrap().unwrap().epoch;
    let topics = TopicNames::new(world.scope.topic_prefix.clone());
    let brokers = &world.scope.endpoints.kafka_brokers;
    let producer = &ClaimsProducer::new(brokers, &topics, ProducerOptions::default());
    // Once some have landed, a keeper sees the lie and begins a new epoch; a claim that is published behind it never
    // lands.
    world.platform.lander.pause().unwrap();
    stream::iter(1..=CLAIMS)
        .map(|number| {
            let claim = let_through(&world, template, epoch, number);
            async move { producer.publish(&claim).await.map(drop) }
        })
        .buffered(AT_A_TIME)
        .try_for_each(async |()| Ok(()))
        .await
        .unwrap();
    world.platform.lander.resume().unwrap();
    let decided = async || rows(&world, template, "").await;
    testkit::until_within(DECIDED_WITHIN, decided, |rows| *rows >= CLAIMS).await;
    let landed = format!(" and state = {}", ClaimState::Landed.code());
    let short = [RejectReason::SoldOut, RejectReason::InsufficientStock].map(RejectReason::code);
    let rejected = ClaimState::Rejected.code();
    let sold_out = format!(" and state = {rejected} and reason in ({}, {})", short[0], short[1]);
    assert_eq!(rows(&world, template, &landed).await, 5);
    assert_eq!(rows(&world, template, &sold_out).await, CLAIMS - 5);
    assert_eq!(world.count(template).await.all(), STOCK);
    // The gate never heard of them: its next epoch reads what was sold.
    lose_gate(&world, template).await;
    let meta = async || world.sources.gate.meta(template).await.ok().flatten();
    let is_new = |meta: &Meta| meta.is_open() && meta.epoch > epoch;
    until(meta, |meta| meta.as_ref().is_some_and(is_new)).await;
    world.assert_sound(None).await;
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    world.end().await;
}

/// Has 60 users claim from a gate that lies, while no claim lands. A keeper that compares the gate with MySQL just then
/// ends the lie before six are let through; then another template's gate lies.
async fn lied_to(world: &mut World) -> (TemplateId, Run) {
    loop {
        let template = world.template(STOCK, two_each).await;
        world.platform.lander.pause().unwrap();
        let meta = gate_key(world, template, "meta");
        gate_command(world, &["HSET", &meta, "stock", "1000"]).await;
        let wish = |user| Wish { quantity: QUANTITY, ..Wish::one(template, UserId(user)) };
        let wishes = (1..=60).map(|user| wish(user).with_key("the-key")).collect();
        let crowd = Crowd::new(world.apis.clone(), USERS_AT_ONCE, LIE_MAX).leaving();
        let run = crowd.run(wishes).await.unwrap();
        if run.accepted.len() > 5 {
            return (template, run);
        }
        world.platform.lander.resume().unwrap();
        let count = run.accepted.len();
        assert_eq!(Promises::of([&run]).kept(world).await, Ends::all_succeeded(count));
    }
}

#[tokio::test]
async fn users_who_were_let_through_by_a_lying_gate_learn_that_it_is_sold_out() {
    let mut world = World::start_queued_with("told by a lying gate", two_apis).await;
    let (template, accepted) = lied_to(&mut world).await;
    world.platform.lander.resume().unwrap();
    let mut promises = Promises::of([&accepted]);
    let ends = promises.kept(&world).await;
    let rejected: usize = ends.rejected.values().sum();
    assert_eq!((ends.succeeded, ends.lost), (5, 0), "{ends:?}");
    assert_eq!(rejected, promises.claims.len() - 5, "{ends:?}");
    let codes = ["SOLD_OUT", "INSUFFICIENT_STOCK"];
    assert!(ends.rejected.keys().all(|code| codes.contains(&code.as_str())), "{ends:?}");
    assert_eq!(world.count(template).await.all(), STOCK);
    lose_gate(&world, template).await;
    open_again(&world, template, 5).await;
    world.assert_sound(None).await;
    world.end().await;
}
