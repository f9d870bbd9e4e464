//! What a client with a receipt is told, and what one without a receipt must not cause.

use coupon::{AcceptAfter, Claim, Epoch, RejectReason};
use landing::claims::fate::{Asked, Fate, QueuedFate, fate, queued_fate};

use super::{Chain, accepted, epoch_of};
use crate::harness::{Rows, TEMPLATE, USER, again, claim, now};

async fn told(chain: &Chain, claim: &Claim, epoch: Epoch) -> QueuedFate {
    let (user, key) = (claim.user_id, &claim.request_id);
    queued_fate(&chain.world.pool, TEMPLATE, user, claim.id, epoch, key).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_leads_from_processing_to_success() {
    let chain = Chain::queued("succeeds", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    let epoch = epoch_of(&process.claim(&first).await);
    assert_eq!(told(&chain, &first, epoch).await, QueuedFate::Processing);
    chain.land().await;
    let fate = told(&chain, &first, epoch).await;
    assert!(matches!(&fate, QueuedFate::Succeeded(landed) if landed.id == first.id));
    chain.world.rebuild().await;
    assert_eq!(told(&chain, &first, epoch).await, fate, "a later epoch changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_leads_from_processing_to_a_rejection() {
    let chain = Chain::queued("is rejected", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 2);
    let epoch = epoch_of(&process.claim(&first).await);
    chain.world.execute("update template_stock set stock = 1").await;
    chain.land().await;
    let rejected = QueuedFate::Rejected(RejectReason::InsufficientStock);
    assert_eq!(told(&chain, &first, epoch).await, rejected);
}

/// The gate forgets that it has queued the key, and queues it again as another admission.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_answered_under_another_id_is_the_answer_of_both() {
    let chain = Chain::queued("two ids", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    let epoch = epoch_of(&process.claim(&first).await);
    let entry = format!("{}gate:1:{{{TEMPLATE}:0}}:users:{epoch}", chain.world.prefix);
    let client = redis::Client::open(chain.world.gate_url.as_str()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    // Numbers without requests, as after a rebuild that did not wait.
    let layout: &[u8] = &[1, 1, 1, b'1'];
    redis::cmd("HSET").arg(entry).arg(USER.0).arg(layout).exec_async(&mut redis).await.unwrap();
    let second = again(&first);
    assert_eq!(accepted(&process.claim(&second).await).0, second.id);
    chain.land().await;
    for asked in [&first, &second] {
        let fate = told(&chain, asked, epoch).await;
        assert!(
            matches!(&fate, QueuedFate::Succeeded(landed) if landed.id == first.id),
            "{fate:?}"
        );
    }
    assert_eq!(chain.world.rows().await, Rows { landed: 1, fences: 1, coupons: 1 });
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_without_a_receipt_fences_nothing_that_may_be_queued() {
    let chain = Chain::queued("no fence", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    // The gate that could tell is gone.
    chain.world.lose_gate().await;
    let asked = Asked { id: first.id, template: Some(TEMPLATE), user: Some(USER) };
    // The ids of these tests are decades old.
    let fate = fate(&chain.world.pool, &chain.world.gate, asked, now(), || true).await.unwrap();
    assert!(matches!(fate, Fate::Processing { .. }), "{fate:?}");
    chain.land().await;
    assert_eq!(chain.world.rows().await, Rows { landed: 1, fences: 0, coupons: 1 });
}
