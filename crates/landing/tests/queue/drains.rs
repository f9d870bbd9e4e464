//! A rebuild with a queue behind its gate: two epochs, and the drain between them.

use std::sync::Arc;

use coupon::{AcceptAfter, UserId};
use landing::{
    claims::{
        Answer, Unavailable,
        fate::{QueuedFate, queued_fate},
    },
    gates::{Gates, PRELOAD},
    rebuild::Rebuilt,
};
use mysql_store::stock;
use redis_gate::Phase;
use runtime::FailPoints;
use testkit::{Proxy, server_of, until_true};
use tokio::time::timeout;

use super::{A_LOOK, Chain, STOCK, Silent, accepted, epoch_of};
use crate::harness::{Process, Rows, Setup, TEMPLATE, USER, World, again, claim, now};

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_waits_for_what_was_queued_which_lands_under_its_own_epoch() {
    let chain = Chain::queued("waits", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let before = chain.world.meta().await.epoch;
    accepted(&process.claim(&claim(UserId(1), "a", 1)).await);
    accepted(&process.claim(&claim(UserId(2), "a", 2)).await);
    let (epoch, rebuilding) = chain.begin_rebuild().await;
    let facts = chain.facts().await;
    assert_eq!((facts.epoch, facts.queued_epoch), (epoch, before));
    let answer = process.claim(&claim(UserId(3), "a", 1)).await;
    assert_eq!(answer, Answer::Unavailable(Unavailable::GateLoading));
    chain.relay().await;
    assert_eq!(chain.facts().await.queued_epoch, before, "the topic has not landed yet");
    chain.land().await;
    assert_eq!(rebuilding.await.unwrap().unwrap(), Rebuilt::Open(epoch));
    assert_eq!(chain.facts().await.queued_epoch, epoch);
    chain.world.assert_gate_equals_mysql().await;
    assert_eq!(chain.world.meta().await.stock, STOCK - 3);
    accepted(&process.claim(&claim(UserId(3), "a", 1)).await);
}

#[tokio::test]
async fn a_template_that_was_never_queued_waits_for_nothing() {
    let world = World::without_gate("never queued", 10, 1).await;
    // Its process has no queue that could be drained.
    let epoch = world.rebuild().await;
    let mut connection = world.connection().await;
    let facts = stock::queue_facts(&mut connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!((facts.epoch, facts.queued_epoch, facts.ever_queued), (epoch, epoch, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_an_operator_ends_leaves_what_is_queued_too_late() {
    let chain = Chain::queued("ended by hand", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    let answer = process.claim(&first).await;
    let fate = async || {
        let id = first.id;
        let key = &first.request_id;
        let at = epoch_of(&answer);
        queued_fate(&chain.world.pool, TEMPLATE, USER, id, at, key).await.unwrap()
    };
    let (epoch, rebuilding) = chain.begin_rebuild().await;
    assert_eq!(fate().await, QueuedFate::Processing);
    let mut connection = chain.world.connection().await;
    assert!(stock::end_drain(&mut connection, TEMPLATE, epoch).await.unwrap());
    assert!(!stock::end_drain(&mut connection, TEMPLATE, epoch).await.unwrap(), "once");
    let rebuilt = timeout(A_LOOK, rebuilding).await.unwrap().unwrap();
    assert_eq!(rebuilt.unwrap(), Rebuilt::Open(epoch));
    assert_eq!(fate().await, QueuedFate::Lost);
    chain.relay().await;
    chain.land().await;
    assert_eq!(chain.world.rows().await, Rows::default());
    assert_eq!(fate().await, QueuedFate::Lost, "what is lost stays lost");
    // The same key may be sent again.
    accepted(&process.claim(&again(&first)).await);
    chain.relay().await;
    chain.land().await;
    assert_eq!(chain.world.rows().await.landed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_whose_broker_does_not_answer_hears_all_the_same_that_an_operator_ends_it() {
    let chain = Chain::queued("silent broker", AcceptAfter::Gate).await;
    let (epoch, rebuilding) = chain.begin_rebuild_by(Arc::new(Silent::default())).await;
    let mut connection = chain.world.connection().await;
    assert!(stock::end_drain(&mut connection, TEMPLATE, epoch).await.unwrap());
    let rebuilt = timeout(A_LOOK, rebuilding).await.unwrap().unwrap();
    assert_eq!(rebuilt.unwrap(), Rebuilt::Open(epoch));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_is_overtaken_ends_and_changes_nothing() {
    let chain = Chain::queued("overtaken drain", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let before = chain.world.meta().await.epoch;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    let (_, rebuilding) = chain.begin_rebuild().await;
    let mut connection = chain.world.connection().await;
    stock::next_epoch(&mut connection, TEMPLATE).await.unwrap();
    let rebuilt = timeout(A_LOOK, rebuilding).await.unwrap().unwrap();
    assert_eq!(rebuilt.unwrap(), Rebuilt::Overtaken);
    assert_eq!(chain.facts().await.queued_epoch, before);
    // What was queued lands nevertheless.
    chain.relay().await;
    chain.land().await;
    assert_eq!(chain.world.rows().await.landed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_does_not_wait_for_a_drain_and_begins_no_second_one() {
    let chain = Chain::queued("keeper apart", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let before = chain.world.meta().await.epoch;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    let world = &chain.world;
    let points = FailPoints::default();
    let queue = chain.topic.clone();
    let (gates, mut keeper) =
        Gates::new(world.pool.clone(), world.gate.clone(), queue, "keeper", PRELOAD, points);
    world.gate.mark_unreadable(TEMPLATE, before, "a test").await.unwrap();
    assert_eq!(gates.not_loaded(), None, "before the first look nothing is known");
    for _ in 0..3 {
        keeper.look(now()).await.unwrap();
    }
    let meta = world.meta().await;
    assert_eq!((meta.phase, meta.epoch.0), (Phase::Loading, before.0 + 1));
    assert_eq!(gates.not_loaded().map(|missing| missing.len()), Some(1));
    chain.relay().await;
    chain.land().await;
    until_true(async || world.meta().await.is_open()).await;
    assert_eq!((world.meta().await.epoch, world.rows().await.landed), (meta.epoch, 1));
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_outlives_the_loss_of_its_gate() {
    let chain = Chain::queued("lost while draining", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    let (epoch, rebuilding) = chain.begin_rebuild().await;
    chain.world.lose_gate().await;
    chain.land().await;
    // It begins its epoch once more in the empty Redis.
    assert_eq!(rebuilding.await.unwrap().unwrap(), Rebuilt::Open(epoch));
    assert_eq!(chain.facts().await.queued_epoch, epoch);
    chain.world.assert_gate_equals_mysql().await;
    assert_eq!(chain.world.rows().await.landed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_whose_gate_is_lost_again_hears_all_the_same_that_an_operator_ends_it() {
    let chain = Chain::queued("lost again", AcceptAfter::Gate).await;
    let (epoch, rebuilding) = chain.begin_rebuild_by(Arc::new(Silent::default())).await;
    chain.world.lose_gate().await;
    let mut connection = chain.world.connection().await;
    assert!(stock::end_drain(&mut connection, TEMPLATE, epoch).await.unwrap());
    let rebuilt = timeout(A_LOOK, rebuilding).await.unwrap().unwrap();
    assert_eq!(rebuilt.unwrap(), Rebuilt::Open(epoch));
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
}

/// What stood in the outbox is gone with it; what the topic has lands.
#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_of_another_type_holds_up_no_drain_and_what_the_topic_has_lands() {
    let chain = Chain::queued("outbox replaced", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    // A claim in the outbox keeps the drain from noting the end.
    chain.world.keep_outbox().await;
    let (epoch, rebuilding) = chain.begin_rebuild().await;
    chain.world.replace_outbox().await;
    chain.land().await;
    assert_eq!(rebuilding.await.unwrap().unwrap(), Rebuilt::Open(epoch));
    assert_eq!((chain.world.rows().await.landed, chain.in_outbox().await), (1, 0));
    chain.world.assert_gate_equals_mysql().await;
    accepted(&process.claim(&claim(UserId(71), "a", 1)).await);
}

/// Only a damaged gate, or one whose MySQL has lost its newest transactions, knows a later epoch than MySQL.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_gate_accepted_under_an_epoch_that_mysql_does_not_know_lands() {
    let chain = Chain::queued("later epoch", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(UserId(1), "a", 1)).await);
    let before = chain.world.meta().await.epoch;
    chain.world.set_meta("epoch", &(before.0 + 5).to_string()).await;
    chain.world.set_meta("users", "0").await;
    accepted(&process.claim(&claim(UserId(2), "a", 1)).await);
    let world = &chain.world;
    let queue = chain.topic.clone();
    let points = FailPoints::default();
    let (_gates, mut keeper) =
        Gates::new(world.pool.clone(), world.gate.clone(), queue, "keeper", PRELOAD, points);
    keeper.look(now()).await.unwrap();
    assert_eq!(world.meta().await.epoch.0, before.0 + 6, "above the gate's");
    chain.land().await;
    until_true(async || world.meta().await.is_open()).await;
    assert_eq!((world.rows().await.landed, world.left().await), (2, STOCK - 2));
    world.assert_gate_equals_mysql().await;
    accepted(&process.claim(&claim(UserId(3), "a", 1)).await);
}

/// The first call for a claim had no answer. The claim is repeated to a gate that was loaded from MySQL meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_landed_behind_a_lost_answer_is_not_admitted_again_by_the_next_gate() {
    let chain = Chain::queued("lost answer", AcceptAfter::Gate).await;
    let proxy = Proxy::before(&chain.world.gate_url).await;
    let gate = chain.world.gate_at(&proxy.instead_of(&chain.world.gate_url)).await;
    let change = |setup: &mut Setup| (setup.keeps, setup.gate) = (false, gate);
    let process = Process::start_with(&chain.world, change).await;
    // Redis has the script from then on.
    accepted(&process.claim(&claim(UserId(1), "a", 1)).await);
    let mut held = proxy.hold_answer(b"lost-answer");
    let first = claim(USER, "lost-answer", 1);
    let answer = process.begin(&first);
    held.reached().await;
    // No call gets through until the next gate is open.
    proxy.lead_to("127.0.0.1:1".parse().unwrap());
    held.cut();
    assert_eq!(chain.in_outbox().await, 2);
    let (epoch, rebuilding) = chain.begin_rebuild().await;
    chain.relay().await;
    chain.land().await;
    assert_eq!(rebuilding.await.unwrap().unwrap(), Rebuilt::Open(epoch));
    proxy.lead_to(server_of(&chain.world.gate_url));
    let answer = answer.await.unwrap();
    assert!(matches!(answer, Answer::Landed { claim, .. } if claim.id == first.id));
    assert_eq!((chain.in_outbox().await, chain.world.meta().await.stock), (0, STOCK - 2));
    chain.world.assert_gate_equals_mysql().await;
    // The user's second coupon is free.
    accepted(&process.claim(&claim(USER, "b", 1)).await);
}
