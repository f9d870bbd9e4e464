//! Answers to clients with a receipt, and what requests without one must not cause.

use std::time::Duration;

use coupon::{AcceptAfter, Claim, ClaimId, ClaimMode, Epoch, RejectReason, TemplateId, UserId};
use landing::claims::{
    Answer, Unavailable,
    fate::{Asker, ClaimQuery, Fate, FateError, QueuedFate, fate, queued_fate},
};
use mysql_store::{connect, look_up::ClaimFate};
use redis_gate::{QueueOptions, Verdict};
use testkit::Proxy;

use super::{Chain, accepted, ask, epoch_of};
use crate::harness::{OPERATOR, Rows, TEMPLATE, USER, again, claim, now};

async fn told(chain: &Chain, claim: &Claim, epoch: Epoch) -> QueuedFate {
    let user = claim.user_id;
    let key = &claim.request_id;
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
    // The gate that knew of the claim is gone.
    chain.world.lose_gate().await;
    let asked = ClaimQuery { id: first.id, template: Some(TEMPLATE), asker: Asker::User(USER) };
    // The ids of these tests are decades old.
    let fate = fate(&chain.world.pool, &chain.world.gate, asked, now(), || Ok(())).await.unwrap();
    assert!(matches!(fate, Fate::Processing { .. }), "{fate:?}");
    chain.land().await;
    assert_eq!(chain.world.rows().await, Rows { landed: 1, fences: 0, coupons: 1 });
}

/// Looks the claim up without a receipt, long after it: the ids of these tests are decades old.
async fn looked_up(chain: &Chain, claim: &Claim, user: UserId) -> Fate {
    let asked = ClaimQuery { id: claim.id, template: Some(TEMPLATE), asker: Asker::User(user) };
    fate(&chain.world.pool, &chain.world.gate, asked, now(), || Ok(())).await.unwrap()
}

/// Its client got 503 with a place to look, and no receipt.
#[tokio::test(flavor = "multi_thread")]
async fn a_direct_claim_that_died_with_its_gate_is_given_up_once_no_queue_can_carry_it() {
    let chain = Chain::open("spill died", ClaimMode::Spill, AcceptAfter::Topic).await;
    let gate = &chain.world.gate;
    let died = claim(USER, "a", 1);
    let epoch = chain.world.meta().await.epoch;
    let verdict = gate.claim(&died, epoch, now(), QueueOptions::direct()).await.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
    assert!(matches!(looked_up(&chain, &died, USER).await, Fate::Processing { .. }), "in flight");
    chain.world.lose_gate().await;
    assert!(matches!(looked_up(&chain, &died, USER).await, Fate::Processing { .. }), "no gate");
    chain.world.rebuild().await;
    let fate = looked_up(&chain, &died, USER).await;
    assert!(matches!(fate, Fate::Decided(ClaimFate::GivenUp { .. })), "{fate:?}");
    assert_eq!(chain.world.rows().await, Rows { landed: 0, fences: 1, coupons: 0 });
}

/// Another template, which was never queued.
const OTHER: TemplateId = TemplateId(11);

/// Looks an id up under [`OTHER`], which places a fence there.
async fn fenced_elsewhere(chain: &Chain, id: ClaimId, asker: Asker) {
    let asked = ClaimQuery { id, template: Some(OTHER), asker };
    let fate = fate(&chain.world.pool, &chain.world.gate, asked, now(), || Ok(())).await.unwrap();
    let is_given_up = matches!(fate, Fate::Decided(ClaimFate::GivenUp { template_id: OTHER, .. }));
    assert!(is_given_up, "no claim of this template has the id: {fate:?}");
}

/// The id of a claim does not show its template, so a client may name the wrong one.
#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_that_was_looked_up_under_another_template_lands_all_the_same() {
    for asker in [OPERATOR, Asker::User(USER), Asker::User(UserId(USER.0 + 1))] {
        let chain = Chain::queued("wrong template", AcceptAfter::Topic).await;
        chain.world.publish(OTHER, 5, 1).await;
        let process = chain.process("a").await;
        let first = claim(USER, "a", 1);
        let epoch = epoch_of(&process.claim(&first).await);
        fenced_elsewhere(&chain, first.id, asker).await;

        assert_eq!(told(&chain, &first, epoch).await, QueuedFate::Processing);
        let fate_of = async |template| {
            let asked = ClaimQuery { id: first.id, template, asker: Asker::User(USER) };
            fate(&chain.world.pool, &chain.world.gate, asked, now(), || Ok(())).await.unwrap()
        };
        assert!(matches!(fate_of(Some(TEMPLATE)).await, Fate::Processing { .. }));
        assert_eq!(fate_of(None).await, Fate::TemplateNeeded);
        assert_eq!(chain.world.resolve().await.released, 0, "the resolver lets it wait");

        chain.land().await;
        assert!(matches!(told(&chain, &first, epoch).await, QueuedFate::Succeeded(_)));
        assert_eq!(chain.world.rows().await, Rows { landed: 1, fences: 0, coupons: 1 });
        for template in [Some(TEMPLATE), Some(OTHER), None] {
            let fate = fate_of(template).await;
            assert!(matches!(fate, Fate::Decided(ClaimFate::Landed(_))), "{fate:?}");
        }
        chain.settled().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_claim_that_was_looked_up_under_another_template_is_rejected_as_any_other() {
    let chain = Chain::queued("wrong template rejected", AcceptAfter::Topic).await;
    chain.world.publish(OTHER, 5, 1).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 2);
    let epoch = epoch_of(&process.claim(&first).await);
    fenced_elsewhere(&chain, first.id, OPERATOR).await;
    chain.world.execute("update template_stock set stock = 1 where template_id = 10").await;
    chain.land().await;
    let rejected = QueuedFate::Rejected(RejectReason::InsufficientStock);
    assert_eq!(told(&chain, &first, epoch).await, rejected);
    assert_eq!(chain.world.rows().await, Rows { landed: 0, fences: 0, coupons: 0 });
}

/// The resolver of its own template gives it up, and the fence moves there.
#[tokio::test(flavor = "multi_thread")]
async fn a_direct_claim_that_was_looked_up_under_another_template_is_given_up_in_its_own() {
    let chain = Chain::open("wrong template direct", ClaimMode::Spill, AcceptAfter::Topic).await;
    chain.world.publish(OTHER, 5, 1).await;
    let gate = &chain.world.gate;
    let died = claim(USER, "a", 1);
    let epoch = chain.world.meta().await.epoch;
    gate.claim(&died, epoch, now(), QueueOptions::direct()).await.unwrap();
    fenced_elsewhere(&chain, died.id, OPERATOR).await;
    assert!(matches!(looked_up(&chain, &died, USER).await, Fate::Processing { .. }), "in flight");
    assert_eq!(chain.world.resolve().await.released, 1);
    let fate = looked_up(&chain, &died, USER).await;
    let own =
        |fate| matches!(fate, Fate::Decided(ClaimFate::GivenUp { template_id: TEMPLATE, .. }));
    assert!(own(fate));
    let fences = "select count(*) from claim where template_id = 10 and state = 2";
    assert_eq!(chain.world.number(fences).await, 1, "the fence moved to its template");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_without_a_receipt_fences_nothing_that_the_gate_has_queued_for_anyone() {
    let chain = Chain::queued("no fence for others", AcceptAfter::Topic).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    for user in [USER, UserId(USER.0 + 1)] {
        looked_up(&chain, &first, user).await;
        assert_eq!(chain.world.rows().await, Rows { landed: 0, fences: 0, coupons: 0 });
    }
    let (_, rebuilding) = chain.begin_rebuild().await;
    looked_up(&chain, &first, USER).await;
    assert_eq!(chain.world.rows().await, Rows { landed: 0, fences: 0, coupons: 0 }, "it drains");
    chain.land().await;
    rebuilding.await.unwrap().unwrap();
    assert_eq!(chain.world.rows().await, Rows { landed: 1, fences: 0, coupons: 1 });
}

/// The search reads all admissions under way, so it has the same limit as fences.
#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_that_may_not_fence_does_not_search_the_gate() {
    let chain = Chain::queued("no search", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let first = claim(USER, "a", 1);
    accepted(&process.claim(&first).await);
    // A search now fails, because the key of the queued claims has another type.
    chain.world.replace_queued().await;
    let asked = ClaimQuery {
        id: claim(USER, "b", 1).id,
        template: Some(TEMPLATE),
        asker: Asker::User(USER),
    };
    let look = async |may_fence| {
        let fate = fate(&chain.world.pool, &chain.world.gate, asked, now(), move || may_fence);
        fate.await.unwrap_err()
    };
    let wait = Duration::from_secs(6);
    let refused = look(Err(wait)).await;
    assert!(matches!(refused, FateError::TooMany { wait: asked } if asked == wait), "{refused}");
    assert!(matches!(look(Ok(())).await, FateError::Gate(_)));
    assert_eq!(chain.world.rows().await, Rows::default());
}

/// By then a look-up may have fenced it, and a 202 would be a broken promise.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_has_waited_too_long_is_not_queued_any_more() {
    let chain = Chain::queued("waited", AcceptAfter::Gate).await;
    let process = chain.process("a").await;
    let claimed_at = now() - chrono::TimeDelta::seconds(61);
    let late = Claim { claimed_at, ..claim(USER, "a", 1) };
    let answer = ask(&chain, &process, &late).await;
    assert_eq!(answer, Answer::Unavailable(Unavailable::GateLoading));
    assert_eq!(chain.in_outbox().await, 0);
}

/// Whichever read is second comes after the landing and the rebuild.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_straddles_a_landing_and_a_new_epoch_calls_no_landed_claim_lost() {
    for read in [&b"queued_epoch"[..], b"from claim"] {
        let chain = Chain::queued("straddles", AcceptAfter::Topic).await;
        let process = chain.process("a").await;
        let first = claim(USER, "a", 1);
        let epoch = epoch_of(&process.claim(&first).await);
        let proxy = Proxy::before(&chain.world.url).await;
        let pool = connect::pool(&proxy.instead_of(&chain.world.url), 1).await.unwrap();
        let mut held = proxy.hold_request(read);
        let id = first.id;
        let key = first.request_id.clone();
        let look = tokio::spawn(async move {
            queued_fate(&pool, TEMPLATE, USER, id, epoch, &key).await.unwrap()
        });
        held.reached().await;
        chain.land().await;
        chain.world.rebuild().await;
        held.go_on();
        let fate = look.await.unwrap();
        assert!(
            matches!(&fate, QueuedFate::Succeeded(landed) if landed.id == first.id),
            "{fate:?}"
        );
    }
}
