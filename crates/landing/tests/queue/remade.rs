//! The topic of claims is removed and created anew while a rebuild or the resolver waits for what it held.

use coupon::{AcceptAfter, UserId};
use landing::{rebuild::Rebuilt, resolver::Watch};
use testkit::until_true;

use super::{Chain, accepted};
use crate::harness::{Rows, USER, again, claim, now};

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_for_claims_that_are_gone_with_their_topic() {
    let chain = Chain::queued("drain remade", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    accepted(&process.claim(&claim(UserId(2), "a", 1)).await);
    let (epoch, rebuilding) = chain.begin_rebuild().await;
    // No lander is at work: the drain has noted an end that it does not reach.
    chain.looked_at(1).await;
    chain.replace_topic().await;
    until_true(async || rebuilding.is_finished()).await;
    assert_eq!(rebuilding.await.unwrap().unwrap(), Rebuilt::Open(epoch));
    assert_eq!(chain.world.rows().await, Rows::default());
    // The sale goes on over the new topic.
    accepted(&process.claim(&again(&first)).await);
    chain.land().await;
    assert_eq!(chain.world.rows().await.landed, 1);
    chain.settled().await;
    chain.world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_that_is_gone_with_its_topic_needs_a_new_epoch() {
    let chain = Chain::queued("uncarried remade", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    accepted(&process.claim(&claim(USER, "a", 1)).await);
    let resolver = chain.world.resolver();
    let mut watch = Watch::default();
    for _ in 0..2 {
        resolver.look_again(&mut watch, now()).await.unwrap();
        assert_eq!(chain.world.meta().await.unreadable, None, "it is in the topic");
    }
    chain.replace_topic().await;
    resolver.look_again(&mut watch, now()).await.unwrap();
    assert!(chain.world.meta().await.unreadable.is_some());
    chain.world.rebuild().await;
    chain.world.assert_gate_equals_mysql().await;
}
