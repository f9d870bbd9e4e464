//! The end of a template with claims in its queue.

use std::time::Duration;

use chrono::TimeDelta;
use coupon::{AcceptAfter, Claim, Open, TemplateState, UserId};
use landing::{
    claims::{Answer, Unavailable},
    gates::{Gates, PRELOAD},
    keeper::Keeper,
};
use redis_gate::Refusal;
use runtime::FailPoints;
use testkit::until_true;

use super::{Chain, accepted, ask};
use crate::harness::{TEMPLATE, again, claim, now};

fn keeper(chain: &Chain) -> (Gates, Keeper) {
    let world = &chain.world;
    let points = FailPoints::default();
    let queue = chain.topic.clone();
    let (gates, mut keeper) =
        Gates::new(world.pool.clone(), world.gate.clone(), queue, "closes", PRELOAD, points);
    keeper.unload_after = Duration::ZERO;
    (gates, keeper)
}

async fn is_closed(chain: &Chain) -> bool {
    chain.facts().await.queue_closed
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_template_is_refused_once_its_queue_has_landed_and_is_closed() {
    let chain = Chain::queued("ended", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let first = claim(UserId(1), "a", 1);
    accepted(&process.claim(&first).await);
    chain.world.change_state(TEMPLATE, TemplateState::Ended).await;
    let (_gates, mut keeper) = keeper(&chain);
    keeper.look(now()).await.unwrap();
    let late = claim(UserId(2), "a", 1);
    let loading = Answer::Unavailable(Unavailable::GateLoading);
    assert_eq!(ask(&chain, &process, &late).await, loading, "no ENDED while a key may land");
    assert_eq!(ask(&chain, &process, &again(&first)).await, loading);
    assert!(!is_closed(&chain).await);
    chain.relay().await;
    chain.land().await;
    until_true(async || is_closed(&chain).await).await;
    let facts = chain.facts().await;
    assert_eq!((facts.open, facts.queued_epoch), (Open::Nothing, facts.epoch));
    until_true(async || chain.world.gate.meta(TEMPLATE).await.unwrap().is_none()).await;
    assert_eq!(ask(&chain, &process, &late).await, Answer::Refused(Refusal::Ended));
    let landed = ask(&chain, &process, &again(&first)).await;
    assert!(matches!(landed, Answer::Landed { claim, replayed: true } if claim.id == first.id));
    keeper.look(now()).await.unwrap();
    assert_eq!(chain.facts().await, facts, "a closed queue is left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_closed_after_its_window_too() {
    let chain = Chain::queued("window over", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let first = claim(UserId(1), "a", 1);
    accepted(&process.claim(&first).await);
    chain.relay().await;
    chain.land().await;
    let (_gates, mut keeper) = keeper(&chain);
    keeper.look(now()).await.unwrap();
    assert!(!is_closed(&chain).await);
    let after = chain.current().await.window.ends_at + TimeDelta::milliseconds(1);
    process.clock.set(after);
    let late = Claim { claimed_at: after, ..claim(UserId(2), "a", 1) };
    let refused = Answer::Refused(Refusal::Closed);
    assert_eq!(process.claim(&late).await, refused, "the gate knows every key that may land");
    // A closed queue stays closed, so a process whose clock is ahead of MySQL's closes none.
    keeper.look(after).await.unwrap();
    assert!(!is_closed(&chain).await);
    let over = "claim_starts_at = now() - interval 2 hour, claim_ends_at = now() - interval 1 hour";
    chain.world.execute(&format!("update coupon_template set {over}")).await;
    keeper.look(after).await.unwrap();
    until_true(async || is_closed(&chain).await).await;
    assert_eq!(process.claim(&late).await, refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_gate_of_an_ended_template_does_not_end_the_wait_for_its_queue() {
    let chain = Chain::queued("ended and lost", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(UserId(1), "a", 1)).await);
    chain.world.change_state(TEMPLATE, TemplateState::Ended).await;
    chain.world.lose_gate().await;
    let (_gates, mut keeper) = keeper(&chain);
    keeper.look(now()).await.unwrap();
    assert!(!is_closed(&chain).await);
    chain.land().await;
    until_true(async || is_closed(&chain).await).await;
    assert_eq!(chain.world.rows().await.landed, 1);
}
