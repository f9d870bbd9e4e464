//! The ends of queued claims that do not land: each is decided once more under the lock of the stock row.

use std::slice;

use coupon::{
    ClaimId, ClaimState, Decision, Epoch, LandingMode, RejectReason, RequestId, UserId, decide,
};
use mysql_store::{
    claim,
    fence::{self, Fence},
    landing::{self, Attempt, Landing, RejectOutcome},
    look_up::{self, ClaimFate, StoredAnswer},
};
use sqlx::Connection;

use super::queued_landing::decisions;
use crate::harness::{
    LEFT_AFTER, Store, TEMPLATE, USER, execute, id_of, landing, landing_of, now, number, queued,
    waits_for_a_row,
};

async fn reject(store: &mut Store, landing: &Landing, reason: RejectReason) -> RejectOutcome {
    landing::reject(&mut store.connection, landing, reason, now()).await.unwrap()
}

async fn state_of(store: &mut Store, id: ClaimId) -> Option<ClaimState> {
    claim::state_of(&mut store.connection, id).await.unwrap()
}

fn otherwise(decision: Decision) -> RejectOutcome {
    RejectOutcome::Otherwise(decision)
}

#[tokio::test]
async fn a_rejection_is_written_once_and_is_final_for_its_key_through_both_doors() {
    let mut store = Store::with_queue("rejected", 1).await;
    let direct = landing("a", &[1, 2]);
    let short = queued(direct.clone());
    let reason = RejectReason::InsufficientStock;
    assert_eq!(reject(&mut store, &short, reason).await, RejectOutcome::Written);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (1, (1, 0)));
    let again = reject(&mut store, &short, reason).await;
    assert_eq!(again, otherwise(Decision::Rejected));
    let known = format!(
        "select count(*) from claim where quantity = 2 and admitted_at is not null \
         and left_after = {LEFT_AFTER}"
    );
    assert_eq!(number(&mut store.connection, &known).await, 1);

    // The key under another id, queued and direct.
    let other = landing("a", &[1]);
    assert_eq!(store.land(slice::from_ref(&other)).await, Attempt::ClaimTaken);
    let asked = [direct, other.clone()];
    let found = landing::reread(&mut store.connection, LandingMode::Direct, &asked).await.unwrap();
    assert_eq!(decide(LandingMode::Direct, &asked[0].admission, &found[0]), Decision::Rejected);
    assert_eq!(decide(LandingMode::Direct, &asked[1].admission, &found[1]), Decision::Elsewhere);
    assert_eq!(decisions(&mut store, &[queued(other)]).await, [Decision::Elsewhere]);
}

#[tokio::test]
async fn every_look_shows_a_rejection_and_its_reason() {
    let mut store = Store::with_queue("rejected looks", 0).await;
    let key = "a";
    let free = RequestId::from_client("b").unwrap();
    let sold_out = queued(landing(key, &[1]));
    let id = sold_out.landed.id;
    let reason = RejectReason::SoldOut;
    assert_eq!(reject(&mut store, &sold_out, reason).await, RejectOutcome::Written);
    let connection = &mut store.connection;
    let fate = look_up::claim_fate(connection, id).await.unwrap();
    let template_id = TEMPLATE;
    let user_id = USER;
    let at = now();
    assert_eq!(fate, Some(ClaimFate::Rejected { id, template_id, user_id, reason, at }));
    let request = &sold_out.admission.claim.request_id;
    let stored = look_up::by_key(connection, TEMPLATE, USER, request).await.unwrap();
    let payload_hash = sold_out.landed.payload_hash;
    assert_eq!(stored, Some(StoredAnswer::Rejected { id, reason, payload_hash }));
    assert_eq!(look_up::by_key(connection, TEMPLATE, USER, &free).await.unwrap(), None);
    // The row is its own fence.
    let fence = fence::place(connection, TEMPLATE, USER, id, now()).await.unwrap();
    assert_eq!(
        (fence, state_of(&mut store, id).await),
        (Fence::Stands, Some(ClaimState::Rejected))
    );
}

#[tokio::test]
async fn a_landed_claim_is_its_keys_answer() {
    let mut store = Store::with_template("answered", 10).await;
    let landing = landing("a", &[1]);
    store.land(slice::from_ref(&landing)).await;
    let request = &landing.admission.claim.request_id;
    let stored = look_up::by_key(&mut store.connection, TEMPLATE, USER, request).await.unwrap();
    let stored = stored.unwrap();
    assert_eq!(
        (stored.id(), stored.payload_hash()),
        (landing.landed.id, landing.landed.payload_hash)
    );
    assert_eq!(stored, StoredAnswer::Landed(landing.landed));
}

#[tokio::test]
async fn nothing_is_rejected_for_what_is_not_so_under_the_lock() {
    let mut store = Store::with_queue("rejected no more", 1).await;
    let short = queued(landing("a", &[1, 2]));
    let refused = reject(&mut store, &short, RejectReason::SoldOut).await;
    assert_eq!(refused, otherwise(Decision::Short { left: 1 }), "one is left");
    let refused = reject(&mut store, &short, RejectReason::Paused).await;
    assert_eq!(refused, otherwise(Decision::Short { left: 1 }));
    execute(&mut store.connection, "update template_stock set stock = 2, total = 2").await;
    let refused = reject(&mut store, &short, RejectReason::InsufficientStock).await;
    assert_eq!(refused, otherwise(Decision::Retry), "a top-up came between");
    let id = short.landed.id;
    fence::place(&mut store.connection, TEMPLATE, USER, id, now()).await.unwrap();
    let refused = reject(&mut store, &short, RejectReason::Failed).await;
    assert_eq!(refused, otherwise(Decision::Fenced));
    assert_eq!(store.counts().await, (1, 0), "the fence");
}

#[tokio::test]
async fn a_claim_fails_only_while_it_has_no_row_and_its_epoch_lasts() {
    let mut store = Store::with_queue("rejected failed", 10).await;
    let landed = queued(landing("a", &[1]));
    let attempt =
        landing::land(&mut store.connection, LandingMode::Queued, slice::from_ref(&landed)).await;
    assert_eq!(attempt.unwrap(), Attempt::Landed);
    let failed = RejectReason::Failed;
    assert_eq!(reject(&mut store, &landed, failed).await, otherwise(Decision::Landed));
    let poison = queued(landing("b", &[2]));
    assert_eq!(reject(&mut store, &poison, failed).await, RejectOutcome::Written);
    execute(&mut store.connection, "update template_stock set queued_epoch = 2").await;
    let late = queued(landing("c", &[3]));
    let too_late = Decision::StaleEpoch { now: Epoch(2) };
    assert_eq!(reject(&mut store, &late, failed).await, otherwise(too_late));
    assert_eq!(state_of(&mut store, late.landed.id).await, None);
}

#[tokio::test]
async fn a_rejection_waits_for_a_rebuild_and_is_then_too_late() {
    let mut store = Store::with_queue("rejected late", 1).await;
    let short = queued(landing("a", &[1, 2]));
    let mut rebuilder = store.another().await;
    let mut lander = store.another().await;
    let lander_id = id_of(&mut lander).await;
    let mut rebuild = rebuilder.begin().await.unwrap();
    execute(&mut rebuild, "update template_stock set epoch = 2, queued_epoch = 2").await;
    let rejecting = tokio::spawn(async move {
        let reason = RejectReason::InsufficientStock;
        landing::reject(&mut lander, &short, reason, now()).await.unwrap()
    });
    waits_for_a_row(&mut store.connection, lander_id).await;
    rebuild.commit().await.unwrap();
    let too_late = Decision::StaleEpoch { now: Epoch(2) };
    assert_eq!(rejecting.await.unwrap(), otherwise(too_late));
    assert_eq!(store.counts().await, (0, 0));
}

#[tokio::test]
async fn a_key_with_an_answer_under_another_id_gets_a_fence_while_its_epoch_lasts() {
    let mut store = Store::with_queue("elsewhere", 10).await;
    store.land(&[landing("a", &[1])]).await;
    let other = queued(landing("a", &[2]));
    for _ in 0..2 {
        let fence = landing::fence_elsewhere(&mut store.connection, &other, now());
        assert!(fence.await.unwrap());
    }
    assert_eq!(state_of(&mut store, other.landed.id).await, Some(ClaimState::Void));

    let late = queued(landing("a", &[3]));
    let id = late.landed.id;
    let mut rebuilder = store.another().await;
    let mut lander = store.another().await;
    let lander_id = id_of(&mut lander).await;
    let mut rebuild = rebuilder.begin().await.unwrap();
    execute(&mut rebuild, "update template_stock set epoch = 2, queued_epoch = 2").await;
    let fencing =
        tokio::spawn(
            async move { landing::fence_elsewhere(&mut lander, &late, now()).await.unwrap() },
        );
    waits_for_a_row(&mut store.connection, lander_id).await;
    rebuild.commit().await.unwrap();
    assert!(!fencing.await.unwrap());
    assert_eq!(state_of(&mut store, id).await, None);
}

#[tokio::test]
async fn of_a_landing_and_a_rejection_of_one_claim_exactly_one_wins() {
    let mut store = Store::with_queue("rejected race", 100).await;
    let mut landed = 0;
    for user in 1..=20 {
        let claim = queued(landing_of(TEMPLATE, UserId(user), "a", &[1]));
        let landings = [claim.clone()];
        let mut lander = store.another().await;
        let mut rejecter = store.another().await;
        let (attempt, rejected) = tokio::join!(
            landing::land(&mut lander, LandingMode::Queued, &landings),
            landing::reject(&mut rejecter, &claim, RejectReason::Failed, now()),
        );
        // Either may be the victim of a deadlock with the other, but not both.
        for error in [attempt.as_ref().err(), rejected.as_ref().err()].into_iter().flatten() {
            assert!(error.is_conflict(), "{error:?}");
        }
        match state_of(&mut store, claim.landed.id).await.unwrap() {
            ClaimState::Landed => {
                landed += 1;
                assert_eq!(attempt.unwrap(), Attempt::Landed);
                if let Ok(outcome) = rejected {
                    assert_eq!(outcome, otherwise(Decision::Landed));
                }
            }
            ClaimState::Rejected => {
                assert_eq!(rejected.unwrap(), RejectOutcome::Written);
                if let Ok(attempt) = attempt {
                    assert_eq!(attempt, Attempt::ClaimTaken);
                }
            }
            ClaimState::Void => panic!("nobody placed a fence"),
        }
    }
    assert_eq!(store.left(TEMPLATE).await, 100 - landed);
    assert_eq!(store.counts().await, (20, landed));
}

#[tokio::test]
async fn rejected_users_are_listed_in_order_and_each_once() {
    let mut store = Store::with_queue("rejected users", 0).await;
    for (user, key) in [(72, "a"), (70, "a"), (71, "a"), (70, "b")] {
        let sold_out = queued(landing_of(TEMPLATE, UserId(user), key, &[1]));
        let written = reject(&mut store, &sold_out, RejectReason::SoldOut).await;
        assert_eq!(written, RejectOutcome::Written);
    }
    let mut listed = async |after: i64| {
        let after = UserId(after);
        let users = look_up::rejected_users_after(&mut store.connection, TEMPLATE, after).await;
        users.unwrap().iter().map(|user| user.0).collect::<Vec<_>>()
    };
    assert_eq!(listed(-1).await, [70, 71, 72]);
    assert_eq!(listed(70).await, [71, 72]);
    assert_eq!(listed(72).await, Vec::<i64>::new());
}
