//! The resolver and queued claims: it settles or releases those that have their answer, and fences none.

use std::sync::Arc;

use coupon::{AcceptAfter, Claim, TemplateId, UserId};
use landing::resolver::{Resolved, Resolver, Watch};
use redis_gate::{QueueOptions, RequestState, Verdict};
use testkit::until_true;

use super::{Chain, Silent, accepted};
use crate::harness::{Rows, TEMPLATE, USER, claim, now};

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_that_landed_untold_is_settled() {
    let chain = Chain::queued("landed untold", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    chain.land_untold().await;
    assert_eq!(chain.world.entry(USER).await.requests[0].state, RequestState::Queued);
    assert_eq!(chain.world.resolve().await, Resolved { settled: 1, ..Resolved::default() });
    chain.settled().await;
    chain.world.assert_gate_equals_mysql().await;
}

/// A newer version or a manual change may have written the state.
#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_whose_row_cannot_be_read_is_left_alone_and_keeps_no_other_from_being_settled()
 {
    let chain = Chain::queued("unreadable row", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    let other = claim(UserId(USER.0 + 1), "a", 1);
    accepted(&process.claim(&first).await);
    accepted(&process.claim(&other).await);
    chain.land_untold().await;
    chain.world.execute(&format!("update claim set state = 99 where id = {}", first.id)).await;
    let resolver = chain.world.resolver();
    let mut watch = Watch::default();
    let resolved = resolver.look_again(&mut watch, now()).await.unwrap();
    assert_eq!(resolved, Resolved { settled: 1, ..Resolved::default() });
    for _ in 0..3 {
        let resolved = resolver.look_again(&mut watch, now()).await.unwrap();
        assert_eq!(resolved, Resolved::default(), "neither settled nor released");
    }
    let state = async |user| chain.world.entry(user).await.requests[0].state;
    assert_eq!(state(first.user_id).await, RequestState::Queued);
    assert_eq!(state(other.user_id).await, RequestState::Landed);
    assert_eq!(chain.world.meta().await.unreadable, None, "it is not taken for one that is lost");
    let rows = chain.world.rows().await;
    assert_eq!((rows.landed, rows.fences, rows.coupons), (1, 0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_that_was_rejected_untold_is_released_and_its_user_looked_up_from_then_on() {
    let chain = Chain::queued("rejected untold", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    let stock = chain.world.left().await;
    chain.world.execute("update template_stock set stock = 0").await;
    chain.land_untold().await;
    chain.world.execute(&format!("update template_stock set stock = {stock}")).await;
    assert_eq!(chain.world.resolve().await, Resolved { released: 1, ..Resolved::default() });
    assert!(chain.world.entry(USER).await.look_in_mysql);
    chain.world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_without_an_answer_is_left_alone_wherever_it_is() {
    let chain = Chain::queued("left alone", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    let resolver = chain.world.resolver();
    let mut watch = Watch::default();
    // First it is in the outbox, then in the topic.
    for relayed in [false, true] {
        if relayed {
            chain.relay().await;
        }
        for _ in 0..3 {
            let resolved = resolver.look_again(&mut watch, now()).await.unwrap();
            assert_eq!(resolved, Resolved::default());
        }
    }
    assert_eq!(chain.world.meta().await.unreadable, None);
    assert_eq!(chain.world.rows().await, Rows::default(), "nothing is fenced");
    chain.land_untold().await;
    let resolved = resolver.look_again(&mut watch, now()).await.unwrap();
    assert_eq!(resolved, Resolved { settled: 1, ..Resolved::default() });
    assert_eq!(chain.world.meta().await.unreadable, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_that_nobody_carries_needs_a_new_epoch() {
    let chain = Chain::queued("nobody carries", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    chain.drop_outbox().await;
    let resolver = chain.world.resolver();
    let mut watch = Watch::default();
    resolver.look_again(&mut watch, now()).await.unwrap();
    assert_eq!(chain.world.meta().await.unreadable, None, "the end is noted");
    resolver.look_again(&mut watch, now()).await.unwrap();
    assert!(chain.world.meta().await.unreadable.is_some());
    assert_eq!(chain.world.rows().await, Rows::default());
    // The new epoch has every coupon.
    chain.world.rebuild().await;
    chain.world.assert_gate_equals_mysql().await;
    assert_eq!(
        chain.world.gate.queued_count(TEMPLATE, chain.world.meta().await.epoch).await.unwrap(),
        0
    );
}

/// An unreachable broker delays each answer, once for each template.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_does_not_answer_keeps_no_direct_admission_from_being_ended() {
    let chain = Chain::queued("silent queue", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    chain.drop_outbox().await;
    // Its template comes after the queued one in every scan.
    let template_id = TemplateId(TEMPLATE.0 + 1);
    let gate = &chain.world.gate;
    chain.world.publish(template_id, 10, 1).await;
    let epoch = chain.world.rebuild_gate_of(template_id).await;
    let lost = Claim { template_id, ..claim(USER, "b", 1) };
    let verdict = gate.claim(&lost, epoch, now(), QueueOptions::direct()).await.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
    let resolver = Resolver { queue: Arc::new(Silent::default()), ..chain.world.resolver() };
    let is_ended = async || gate.in_flight_count(template_id, epoch).await.unwrap() == 0;
    tokio::select! {
        looked = resolver.look(now()) => panic!("the queue has answered: {looked:?}"),
        () = until_true(is_ended) => {}
    }
}
