//! What a 202 waits for, and the answer to a key that was queued before.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use coupon::{AcceptAfter, ClaimMode, Epoch, RejectReason, UserId};
use landing::claims::{Answer, CLAIMS_MAX, PUBLISHING_SHARE, Unavailable};
use redis_gate::RequestState;
use testkit::until_true;
use tokio::time::timeout;

use super::{Chain, Silent, accepted, ask, unknown};
use crate::harness::{Process, Rows, Setup, TEMPLATE, USER, World, again, claim};

/// Claims that one process publishes at a time.
const PUBLISHING_MAX: u64 = (CLAIMS_MAX / PUBLISHING_SHARE) as u64;

/// A claim is answered within this time, unless it waits for a lander that hangs.
const ANSWERED_IN: Duration = Duration::from_secs(2);

/// A claim that need not wait for the broker is answered within this time: less than that wait.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The rows of `landed` claims of one coupon each.
fn landed(landed: i64) -> Rows {
    Rows { landed, fences: 0, coupons: landed }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_accepted_once_the_topic_has_it_and_lands_behind() {
    let chain = Chain::queued("after topic", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    let (id, position) = accepted(&process.claim(&first).await);
    assert_eq!((id, position.unwrap().offset), (first.id, 0));
    assert_eq!((chain.in_outbox().await, chain.world.rows().await), (0, landed(0)));
    chain.land().await;
    chain.settled().await;
    assert_eq!(chain.world.rows().await, landed(1));
    assert_eq!(chain.world.entry(USER).await.requests[0].state, RequestState::Landed);
    chain.world.assert_gate_equals_mysql().await;
    // The same key once more, in the same mode.
    let answer = process.claim(&again(&first)).await;
    assert!(matches!(answer, Answer::Landed { claim, replayed: true } if claim.id == first.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_the_gate_alone_accepts_waits_in_the_outbox() {
    let chain = Chain::queued("after gate", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 2);
    assert_eq!(accepted(&process.claim(&first).await), (first.id, None));
    assert_eq!(chain.in_outbox().await, 1);
    // A repetition is answered with the same admission.
    assert_eq!(accepted(&process.claim(&again(&first)).await), (first.id, None));
    chain.relay().await;
    chain.land().await;
    chain.settled().await;
    assert_eq!(chain.world.rows().await, Rows { landed: 1, fences: 0, coupons: 2 });
    chain.world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_are_an_unknown_end_and_the_claim_lands() {
    let chain = Chain::queued("after replica", AcceptAfter::Replica).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    assert_eq!(unknown(&process.claim(&first).await), first.id);
    assert_eq!(unknown(&process.claim(&again(&first)).await), first.id);
    assert_eq!(chain.in_outbox().await, 1);
    chain.relay().await;
    chain.land().await;
    assert_eq!(chain.world.rows().await, landed(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_cannot_be_published_is_published_by_whoever_repeats_it() {
    let mut chain = Chain::queued("unpublished", AcceptAfter::Topic).await;
    let cut_off = chain.cut_off_process("cut off").await;
    let first = claim(USER, "a", 1);
    assert_eq!(unknown(&cut_off.claim(&first).await), first.id);
    let process = chain.process("a").await;
    let (id, position) = accepted(&process.claim(&again(&first)).await);
    assert_eq!((id, position.unwrap().offset), (first.id, 0));
    // The relay publishes it too, because only the process that appended an entry knows it.
    assert_eq!(chain.in_outbox().await, 1);
    chain.relay().await;
    chain.land().await;
    assert_eq!(chain.world.rows().await, landed(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_lost_between_topic_and_answer_accepts_nothing() {
    let chain = Chain::queued("lost in between", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let mut held = process.points.hold("claims.after_publish");
    let first = claim(USER, "a", 1);
    let answer = process.begin(&first);
    held.reached(1).await;
    chain.world.lose_gate().await;
    held.let_go();
    assert_eq!(unknown(&answer.await.unwrap()), first.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_key_is_answered_so_through_both_doors_and_after_a_rebuild() {
    let chain = Chain::queued("rejected key", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    chain.world.execute("update template_stock set stock = 0").await;
    chain.land().await;
    chain.settled().await;
    chain.world.execute("update template_stock set stock = 10").await;
    let rejected = Answer::Rejected { id: first.id, reason: RejectReason::SoldOut };
    // The gate has the coupon back and would admit the key.
    assert_eq!(process.claim(&again(&first)).await, rejected);
    assert_eq!(process.claim(&claim(USER, "a", 2)).await, Answer::KeyReused);
    chain.relay().await;
    chain.land().await;
    assert_eq!(
        chain.world.rows().await.landed,
        0,
        "the key's later admissions end with its answer"
    );
    chain.change_mode(ClaimMode::Direct, AcceptAfter::Topic).await;
    chain.world.rebuild().await;
    assert_eq!(ask(&chain, &process, &again(&first)).await, rejected);
    chain.change_mode(ClaimMode::Queued, AcceptAfter::Topic).await;
    chain.world.rebuild().await;
    assert_eq!(ask(&chain, &process, &again(&first)).await, rejected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_landed_before_a_rebuild_is_not_accepted_again() {
    let chain = Chain::queued("landed key", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    chain.land().await;
    chain.world.rebuild().await;
    let answer = process.claim(&again(&first)).await;
    assert!(matches!(answer, Answer::Landed { claim, replayed: true } if claim.id == first.id));
    // The gate gets the number back once the queue has found that the key is answered.
    chain.relay().await;
    chain.land().await;
    chain.settled().await;
    accepted(&process.claim(&claim(USER, "b", 1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_spills_lands_at_once_until_the_queue_is_long() {
    let chain = Chain::open("spills", ClaimMode::Spill, AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    process.land(&claim(UserId(1), "a", 1)).await;
    chain.topic.backlog.store(1_001, Ordering::Relaxed);
    accepted(&process.claim(&claim(UserId(2), "a", 1)).await);
    chain.topic.backlog.store(1_000, Ordering::Relaxed);
    process.land(&claim(UserId(3), "a", 1)).await;
    assert_eq!(chain.world.rows().await, landed(2));
    chain.land().await;
    assert_eq!(chain.world.rows().await, landed(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_spills_queues_while_its_lander_has_no_mysql() {
    let chain = Chain::open("spills over", ClaimMode::Spill, AcceptAfter::Gate).await;
    let away = |setup: &mut Setup| {
        (setup.keeps, setup.database_url) = (false, "mysql://root@127.0.0.1:1/nowhere".to_owned());
    };
    let process = Process::start_with(&chain.world, away).await;
    let mut user = 0;
    // A claim that the gate admits to the direct way waits for its lander.
    until_true(async || {
        user += 1;
        let answer = process.begin(&claim(UserId(user), "a", 1));
        matches!(tokio::time::timeout(ANSWERED_IN, answer).await, Ok(Ok(Answer::Accepted { .. })))
    })
    .await;
    assert_eq!(chain.in_outbox().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_decides_and_not_what_a_process_believes_of_the_mode() {
    let chain = Chain::queued("the gate decides", AcceptAfter::Topic).await;
    let believes_queued = chain.process("queued").await;
    chain.change_mode(ClaimMode::Direct, AcceptAfter::Topic).await;
    assert!(believes_queued.gates.send_state(&chain.current().await).await.unwrap());
    believes_queued.land(&claim(UserId(1), "a", 1)).await;
    let believes_direct = chain.process("direct").await;
    chain.change_mode(ClaimMode::Queued, AcceptAfter::Topic).await;
    assert!(believes_direct.gates.send_state(&chain.current().await).await.unwrap());
    accepted(&believes_direct.claim(&claim(UserId(2), "a", 1)).await);
    chain.land().await;
    assert_eq!(chain.world.rows().await, landed(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_of_a_gate_that_is_loading_is_not_admitted() {
    let chain = Chain::queued("loading", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let epoch = chain.world.meta().await.epoch;
    assert!(chain.world.gate.begin(TEMPLATE, Epoch(epoch.0 + 1)).await.unwrap());
    let answer = process.claim(&claim(USER, "a", 1)).await;
    assert_eq!(answer, Answer::Unavailable(Unavailable::GateLoading));
    assert_eq!(chain.in_outbox().await, 0);
}

/// More waiting claims would take the places of claims that need no broker.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_does_not_wait_for_a_broker_that_too_many_wait_for() {
    let mut world = World::without_gate("many at the broker", 10_000, 1).await;
    let queue = Arc::new(Silent::default());
    world.queue = queue.clone();
    world.execute("update coupon_template set claim_mode = 1").await;
    world.rebuild().await;
    let process = Process::without_keeper(&world, "a").await;
    let users = i64::try_from(PUBLISHING_MAX).unwrap();
    let begin = |user| process.begin(&claim(UserId(user), "a", 1));
    let waiting: Vec<_> = (0..users).map(begin).collect();
    until_true(async || queue.asked.load(Ordering::Relaxed) == PUBLISHING_MAX).await;
    let late = claim(UserId(users), "a", 1);
    assert_eq!(unknown(&timeout(AT_ONCE, process.claim(&late)).await.unwrap()), late.id);
    drop(waiting);
}

/// A rebuild without a limit loads no numbers, but it must load whose keys have an answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_key_is_answered_so_after_a_rebuild_without_a_limit() {
    let chain = Chain::limited("rejected unlimited", ClaimMode::Queued, AcceptAfter::Topic, 0);
    let chain = chain.await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    chain.world.execute("update template_stock set stock = 0").await;
    chain.land().await;
    chain.settled().await;
    chain.world.execute("update template_stock set stock = 10").await;
    chain.world.rebuild().await;
    let rejected = Answer::Rejected { id: first.id, reason: RejectReason::SoldOut };
    assert_eq!(process.claim(&again(&first)).await, rejected);
    accepted(&process.claim(&claim(UserId(71), "a", 1)).await);
}
