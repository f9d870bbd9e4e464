//! Keys that have their answer in MySQL, at a gate that does not know them: they get that answer, and nothing is taken
//! for them.

use coupon::{AcceptAfter, ClaimMode, RejectReason, UserId};
use landing::claims::{Answer, Unavailable};

use super::{Chain, STOCK, accepted, ask, unknown};
use crate::harness::{Process, TEMPLATE, USER, again, claim};

/// Sends the key again, with the same quantity and with another one, and asserts that the gate takes nothing.
async fn assert_answered(chain: &Chain, process: &Process, landed: &Answer) {
    let before = chain.world.meta().await.stock;
    let first = claim(USER, "a", 1);
    assert_eq!(ask(chain, process, &first).await, *landed);
    assert_eq!(ask(chain, process, &claim(USER, "a", 2)).await, Answer::KeyReused);
    assert_eq!((chain.world.meta().await.stock, chain.in_outbox().await), (before, 0));
}

/// The user's key `a` has landed; the gate was rebuilt since.
async fn rebuilt(name: &str, limit: u32, after: AcceptAfter) -> (Chain, Process, Answer) {
    let chain = Chain::limited(name, ClaimMode::Queued, after, limit).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    chain.relay().await;
    chain.land().await;
    chain.settled().await;
    let landed = process.claim(&claim(USER, "a", 1)).await;
    assert!(matches!(landed, Answer::Landed { .. }), "{landed:?}");
    chain.world.rebuild().await;
    (chain, process, landed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_landed_before_a_rebuild_has_its_answer_and_takes_nothing() {
    for (limit, after) in [
        (0, AcceptAfter::Topic),
        (0, AcceptAfter::Gate),
        (5, AcceptAfter::Topic),
        (5, AcceptAfter::Gate),
    ] {
        let name = format!("answered {limit} {after:?}");
        let (chain, process, landed) = rebuilt(&name, limit, after).await;
        assert_answered(&chain, &process, &landed).await;
        // Another key of the same user, and other users, go on.
        accepted(&process.claim(&claim(USER, "b", 2)).await);
        accepted(&process.claim(&claim(UserId(71), "a", 1)).await);
        chain.relay().await;
        chain.land().await;
        chain.settled().await;
        assert_eq!(chain.world.rows().await.coupons, 4, "{limit}");
        let stock = (chain.world.left().await, chain.world.meta().await.stock);
        assert_eq!(stock, (STOCK - 4, STOCK - 4), "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_landed_before_a_rebuild_leave_the_stock_to_new_users() {
    let (chain, process, landed) = rebuilt("last coupon", 0, AcceptAfter::Topic).await;
    chain.world.execute("update template_stock set stock = 1, total = 2").await;
    chain.world.rebuild().await;
    for _ in 0..3 {
        assert_eq!(process.claim(&claim(USER, "a", 1)).await, landed);
    }
    // Its claims are not landed, as if the landers were behind.
    accepted(&process.claim(&claim(UserId(71), "a", 1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_key_takes_nothing_however_often_it_is_sent() {
    let chain = Chain::queued("rejected takes nothing", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    chain.world.execute("update template_stock set stock = 0").await;
    chain.land().await;
    chain.settled().await;
    let rejected = Answer::Rejected { id: first.id, reason: RejectReason::SoldOut };
    for _ in 0..3 {
        assert_eq!(process.claim(&again(&first)).await, rejected);
    }
    assert_eq!((chain.world.meta().await.stock, chain.in_outbox().await), (STOCK, 0));
}

/// No user has an entry that a claim in the new mode would find, unless the rebuild made one.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_landed_directly_has_its_answer_after_a_rebuild_and_a_change_of_the_mode() {
    let chain = Chain::limited("direct before", ClaimMode::Direct, AcceptAfter::Topic, 0).await;
    let process = chain.process("a").await;
    let landed = process.land(&claim(USER, "a", 1)).await;
    chain.world.settled().await;
    chain.world.rebuild().await;
    chain.change_mode(ClaimMode::Queued, AcceptAfter::Topic).await;
    process.gates.send_state(&chain.current().await).await.unwrap();
    let replay = Answer::Landed { claim: landed, replayed: true };
    assert_answered(&chain, &process, &replay).await;
}

/// A claim that may be queued takes nothing while nobody can tell whether its key has an answer.
#[tokio::test(flavor = "multi_thread")]
async fn without_mysql_only_users_who_may_have_answers_wait() {
    let (chain, process, _) = rebuilt("without answers", 0, AcceptAfter::Topic).await;
    chain.world.execute("rename table claim to claim_away").await;
    let asked = process.claim(&claim(USER, "new", 1)).await;
    assert_eq!(asked, Answer::Unavailable(Unavailable::Store));
    accepted(&process.claim(&claim(UserId(71), "a", 1)).await);
    assert_eq!(chain.world.meta().await.stock, STOCK - 2);
    assert_eq!(
        chain.world.gate.user_count(TEMPLATE, chain.world.meta().await.epoch).await.unwrap(),
        2
    );
}

/// The gate's limit is damaged. Nobody gets more than the template allows, whatever the gate has queued.
#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_beyond_the_limit_is_not_accepted_and_rejected() {
    let chain = Chain::limited("beyond", ClaimMode::Queued, AcceptAfter::Topic, 1).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    chain.world.set_meta("limit", "5").await;
    let beyond = claim(USER, "b", 1);
    assert_eq!(unknown(&process.claim(&beyond).await), beyond.id);
    chain.relay().await;
    chain.land().await;
    chain.settled().await;
    assert_eq!(chain.world.rows().await.coupons, 1);
    let rejected = Answer::Rejected { id: beyond.id, reason: RejectReason::LimitReached };
    assert_eq!(process.claim(&again(&beyond)).await, rejected);
}
