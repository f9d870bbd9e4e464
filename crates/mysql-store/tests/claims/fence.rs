//! The fence: either it exists, or the admission has landed; never neither.

use coupon::{ClaimId, ClaimState, LandingMode, TemplateId};
use mysql_store::{
    claim, claim_states,
    fence::{self, Fence},
};
use sqlx::Connection;

use crate::harness::{Store, TEMPLATE, USER, execute, id_of, landing, now, waits_for_a_row};

#[tokio::test]
async fn a_fence_stands_however_often_it_is_placed() {
    let mut store = Store::with_template("fence stands", 10).await;
    for _ in 0..2 {
        let fence = fence::place(&mut store.connection, TEMPLATE, USER, ClaimId(5), now()).await;
        assert_eq!(fence.unwrap(), Fence::Stands);
    }
    let state = claim::state_of(&mut store.connection, ClaimId(5)).await.unwrap();
    assert_eq!((state, store.counts().await), (Some(ClaimState::Void), (1, 0)));
}

#[tokio::test]
async fn a_fence_in_another_template_stays_for_a_lookup_and_moves_for_who_holds_the_claim() {
    let mut store = Store::with_template("fence elsewhere", 10).await;
    let connection = &mut store.connection;
    let id = ClaimId(5);
    let elsewhere = TemplateId(TEMPLATE.0 + 1);
    fence::place(connection, elsewhere, USER, id, now()).await.unwrap();
    let looked_up = fence::place(connection, TEMPLATE, USER, id, now()).await.unwrap();
    let states = claim_states::of_ids(connection, TEMPLATE, &[id]).await.unwrap();
    assert_eq!((looked_up, states.get(&id)), (Fence::Stands, None), "it still binds the other");
    let held = fence::place_held(connection, TEMPLATE, USER, id, now()).await.unwrap();
    let states = claim_states::of_ids(connection, TEMPLATE, &[id]).await.unwrap();
    assert_eq!((held, states.get(&id)), (Fence::Stands, Some(&Ok(ClaimState::Void))));
    let again = fence::place_held(connection, TEMPLATE, USER, id, now()).await.unwrap();
    assert_eq!((again, store.counts().await), (Fence::Stands, (1, 0)));
}

#[tokio::test]
async fn only_fences_of_other_templates_are_lifted() {
    let mut store = Store::with_template("fences lifted", 10).await;
    let landed = landing("a", &[1]);
    store.land(std::slice::from_ref(&landed)).await;
    let connection = &mut store.connection;
    let own = ClaimId(5);
    let foreign = ClaimId(6);
    fence::place(connection, TEMPLATE, USER, own, now()).await.unwrap();
    fence::place(connection, TemplateId(TEMPLATE.0 + 1), USER, foreign, now()).await.unwrap();
    let held = [own, foreign, landed.landed.id, ClaimId(7)].map(|id| (id, TEMPLATE));
    assert_eq!(fence::lift_foreign(connection, &held).await.unwrap(), 1);
    assert_eq!(fence::lift_foreign(connection, &held).await.unwrap(), 0);
    let states = claim_states::of_ids(connection, TEMPLATE, &held.map(|(id, _)| id)).await.unwrap();
    let both = [(own, Ok(ClaimState::Void)), (landed.landed.id, Ok(ClaimState::Landed))];
    assert_eq!(states, both.into_iter().collect());
}

#[tokio::test]
async fn a_fence_finds_that_its_admission_landed() {
    let mut store = Store::with_template("fence landed", 10).await;
    let landing = landing("a", &[1]);
    store.land(std::slice::from_ref(&landing)).await;
    let id = landing.landed.id;
    let fence = fence::place(&mut store.connection, TEMPLATE, USER, id, now()).await.unwrap();
    assert_eq!((fence, store.counts().await), (Fence::Landed, (1, 1)));
}

#[tokio::test]
async fn a_fence_waits_for_an_open_landing_and_then_wins_or_loses() {
    for (ends, expected) in [(true, Fence::Landed), (false, Fence::Stands)] {
        let mut store = Store::with_template("fence waits", 10).await;
        let mut lander = store.another().await;
        let mut fencer = store.another().await;
        let fencer_id = id_of(&mut fencer).await;
        let mut transaction = lander.begin().await.unwrap();
        let insert = "insert into claim (template_id, user_id, request_id, id, quantity, state, \
                      payload_hash, valid_from, valid_until, created_at) \
                      values (10, 70, 'a', 5, 1, 1, repeat(x'00', 16), now(), now(), now())";
        execute(&mut transaction, insert).await;
        let fence = tokio::spawn(async move {
            fence::place(&mut fencer, TEMPLATE, USER, ClaimId(5), now()).await.unwrap()
        });
        waits_for_a_row(&mut store.connection, fencer_id).await;
        if ends { transaction.commit().await } else { transaction.rollback().await }.unwrap();
        assert_eq!(fence.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn of_many_fences_and_one_landing_exactly_one_kind_wins() {
    let store = Store::with_template("fence race", 100).await;
    for round in 0..20 {
        let landing = landing(&format!("key-{round}"), &[1]);
        let id = landing.landed.id;
        let mut one = store.another().await;
        let mut other = store.another().await;
        let mut lander = store.another().await;
        let landings = [landing];
        let (attempt, one, other) = tokio::join!(
            mysql_store::landing::land(&mut lander, LandingMode::Direct, &landings),
            fence::place(&mut one, TEMPLATE, USER, id, now()),
            fence::place(&mut other, TEMPLATE, USER, id, now()),
        );
        let state = claim::state_of(&mut lander, id).await.unwrap().unwrap();
        let expected = match state {
            ClaimState::Landed => Fence::Landed,
            _ => Fence::Stands,
        };
        for fence in [one, other] {
            match fence {
                Ok(fence) => assert_eq!(fence, expected),
                Err(error) => assert!(error.is_conflict(), "{error:?}"),
            }
        }
        if state == ClaimState::Landed {
            assert_eq!(attempt.unwrap(), mysql_store::landing::Attempt::Landed);
            let sql = "update user_coupon set claim_no = id, version = version + 1";
            execute(&mut lander, sql).await;
        }
    }
}
