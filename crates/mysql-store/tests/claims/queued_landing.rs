//! The landing of queued claims: under the epoch of what was accepted, and otherwise as a direct one.

use std::{future::ready, slice, sync::Mutex};

use chrono::TimeDelta;
use coupon::{
    AcceptedClaims, Decision, Epoch, LandingMode, RejectReason, Template, TemplateId,
    TemplateState, UserId, Validity, decide,
};
use mysql_store::{
    claim, fence,
    landing::{self, Attempt, Landing},
    stock, template,
    template_edit::{self, Edited},
};

use crate::harness::{
    EPOCH, LEFT_AFTER, Store, TEMPLATE, USER, landing, landing_of, now, number, queued,
};

async fn land(store: &mut Store, landings: &[Landing]) -> Attempt {
    landing::land(&mut store.connection, LandingMode::Queued, landings).await.unwrap()
}

/// Rereads and decides, each as if it were alone.
pub(super) async fn decisions(store: &mut Store, landings: &[Landing]) -> Vec<Decision> {
    let found =
        landing::reread(&mut store.connection, LandingMode::Queued, landings).await.unwrap();
    assert_eq!(found.len(), landings.len());
    let both = landings.iter().zip(&found);
    both.map(|(one, found)| decide(LandingMode::Queued, &one.admission, found)).collect()
}

#[tokio::test]
async fn a_queued_claim_lands_with_what_the_gate_knew_of_it() {
    let mut store = Store::with_queue("queued landed", 10).await;
    let strangers = landing_of(TEMPLATE, UserId(131), "a", &[1]);
    let landings = [queued(landing("a", &[1, 2])), queued(strangers)];
    assert_eq!(land(&mut store, &landings).await, Attempt::Landed);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (7, (2, 3)));
    let connection = &mut store.connection;
    for Landing { admission, landed, .. } in &landings {
        let request = &admission.claim.request_id;
        let stored = claim::landed_under_key(connection, TEMPLATE, landed.user_id, request).await;
        assert_eq!(stored.unwrap().as_ref(), Some(landed));
    }
    let known = format!(
        "select count(*) from claim where admitted_at = created_at and left_after = {LEFT_AFTER}"
    );
    assert_eq!(number(connection, &known).await, 2);
    // The same batch again finds out that it landed.
    assert_eq!(land(&mut store, &landings).await, Attempt::ClaimTaken);
    assert_eq!(decisions(&mut store, &landings).await, [Decision::Landed, Decision::Landed]);
}

#[tokio::test]
async fn what_was_queued_lands_after_the_epoch_rose_until_its_own_epoch_does() {
    let mut store = Store::with_queue("queued epochs", 10).await;
    let next = Epoch(EPOCH.0 + 1);
    let raised = stock::next_epoch(&mut store.another().await, TEMPLATE).await.unwrap();
    assert_eq!(raised, Some(next));
    assert_eq!(store.land(&[landing("direct", &[1])]).await, Attempt::GuardRefused);
    assert_eq!(land(&mut store, &[queued(landing("a", &[1]))]).await, Attempt::Landed);
    assert!(stock::set_queued_epoch(&mut store.connection, TEMPLATE, next).await.unwrap());
    let late = [queued(landing("b", &[2]))];
    assert_eq!(land(&mut store, &late).await, Attempt::GuardRefused);
    assert_eq!(decisions(&mut store, &late).await, [Decision::StaleEpoch { now: next }]);
    assert_eq!(store.counts().await, (1, 1));
}

#[tokio::test]
async fn a_pause_or_an_end_lets_accepted_claims_land_unless_it_rejects_them() {
    for (state, reason) in
        [(TemplateState::Paused, RejectReason::Paused), (TemplateState::Ended, RejectReason::Ended)]
    {
        let mut store = Store::with_queue("queued pause", 10).await;
        store.change(state, AcceptedClaims::Land).await;
        assert_eq!(store.land(&[landing("direct", &[1])]).await, Attempt::GuardRefused);
        assert_eq!(land(&mut store, &[queued(landing("a", &[1]))]).await, Attempt::Landed);
        store.change(state, AcceptedClaims::Reject).await;
        let refused = [queued(landing("b", &[2]))];
        assert_eq!(land(&mut store, &refused).await, Attempt::GuardRefused);
        assert_eq!(decisions(&mut store, &refused).await, [Decision::NotOpen(reason)]);
        assert_eq!((store.left(TEMPLATE).await, store.counts().await), (9, (1, 1)));
    }
}

#[tokio::test]
async fn a_claim_whose_number_is_taken_finds_the_lowest_free_ones() {
    let mut store = Store::with_queue("queued numbers", 10).await;
    assert_eq!(land(&mut store, &[queued(landing("a", &[1, 3]))]).await, Attempt::Landed);
    let again = queued(landing("b", &[3, 4]));
    let attempt = land(&mut store, slice::from_ref(&again)).await;
    assert_eq!(attempt, Attempt::NumberTaken);
    // Of five numbers three are free.
    let too_many = queued(landing("c", &[3, 4, 5, 1]));
    let strangers = queued(landing_of(TEMPLATE, UserId(USER.0 + 1), "a", &[1]));
    let expected = [
        Decision::NumberTaken { free: Some(vec![2, 4]) },
        Decision::NumberTaken { free: None },
        Decision::Retry,
    ];
    assert_eq!(decisions(&mut store, &[again, too_many, strangers]).await, expected);
}

#[tokio::test]
async fn a_batch_of_several_templates_lands_whole_or_not_at_all() {
    let mut store = Store::with_queue("queued templates", 10).await;
    let other = TemplateId(11);
    store.publish(other, 1).await;
    let mine = queued(landing("a", &[1]));
    let short = queued(landing_of(other, USER, "a", &[1, 2]));
    let attempt = land(&mut store, &[short.clone(), mine.clone()]).await;
    assert_eq!(attempt, Attempt::GuardRefused);
    assert_eq!(store.counts().await, (0, 0));
    let decided = decisions(&mut store, &[mine.clone(), short]).await;
    assert_eq!(decided, [Decision::Retry, Decision::Short { left: 1 }]);
    let fits = queued(landing_of(other, USER, "b", &[1]));
    assert_eq!(land(&mut store, &[mine, fits]).await, Attempt::Landed);
    assert_eq!((store.left(TEMPLATE).await, store.left(other).await), (9, 0));
}

#[tokio::test]
async fn a_reread_finds_a_keys_answer_a_fence_and_a_template_that_is_gone() {
    let mut store = Store::with_queue("queued reread", 10).await;
    let landed = queued(landing("a", &[1]));
    assert_eq!(land(&mut store, slice::from_ref(&landed)).await, Attempt::Landed);
    let same_key = queued(landing("a", &[2]));
    let fenced = queued(landing("b", &[3]));
    let id = fenced.landed.id;
    fence::place(&mut store.connection, TEMPLATE, USER, id, now()).await.unwrap();
    assert_eq!(land(&mut store, slice::from_ref(&fenced)).await, Attempt::ClaimTaken);
    let nowhere = queued(landing_of(TemplateId(99), USER, "a", &[1]));
    let expected = [
        Decision::Landed,
        Decision::Elsewhere,
        Decision::Fenced,
        Decision::StaleEpoch { now: Epoch::UNKNOWN },
    ];
    let asked = [landed, same_key, fenced, nowhere];
    assert_eq!(decisions(&mut store, &asked).await, expected);
}

#[tokio::test]
async fn a_queued_claim_lands_with_the_validity_that_its_template_has_by_then() {
    let mut store = Store::with_queue("queued validity", 10).await;
    let before = template::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
    let until = now() + TimeDelta::hours(3);
    let validity = Validity::Absolute { from: now(), until };
    let after = Template { validity, ..before.clone() };
    let edited = template_edit::edit(&mut store.connection, &before, &after, false, now()).await;
    assert_eq!(edited.unwrap(), Edited::Done);
    let mut old = [queued(landing("a", &[1]))];
    assert_eq!(land(&mut store, &old).await, Attempt::GuardRefused);
    assert_eq!(decisions(&mut store, &old).await, [Decision::Retry]);
    for renewed in [true, false] {
        let again = landing::renew(&mut store.connection, old.iter_mut().collect()).await;
        assert_eq!(again.unwrap(), renewed);
    }
    assert_eq!(old[0].landed.valid_until, until);
    assert_eq!(land(&mut store, &old).await, Attempt::Landed);
}

#[tokio::test]
async fn a_queued_landing_reaches_points_of_its_own() {
    let mut store = Store::with_queue("queued points", 10).await;
    let reached = Mutex::new(Vec::new());
    let landings = [queued(landing("a", &[1]))];
    let attempt =
        landing::land_by_way_of(&mut store.connection, LandingMode::Queued, &landings, |point| {
            reached.lock().unwrap().push(point);
            ready(Ok(()))
        });
    assert_eq!(attempt.await.unwrap(), Attempt::Landed);
    let points = ["queued.after_insert", "queued.after_guard", "queued.before_commit"];
    assert_eq!(*reached.lock().unwrap(), points);
}
