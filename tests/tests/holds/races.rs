//! Confirmations and cancellations of one coupon meet at a barrier: MySQL's rows show one winner.

use std::sync::Arc;

use devstack::PlatformOptions;
use futures::future::join_all;
use pipeline_tests::World;
use shopper::Answer;
use tokio::sync::Barrier;

use crate::{
    desk::refusal,
    holds::{LONG, claimed, number, returns, stock},
};

/// Rounds of the race, each for a coupon of its own.
const ROUNDS: i64 = 8;

/// Calls at one moment: a third confirm, a third cancel as the user, a third as the shop.
const AT_ONCE: usize = 30;

/// Users of the duel, all at one moment.
const DUELS: i64 = 30;

#[tokio::test]
async fn a_payment_and_its_users_cancellation_at_once_have_one_winner() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("hold duel", two).await;
    let template = world.template(DUELS, |new| new.held_for(LONG)).await;
    let duels = (1..=DUELS).map(|user| {
        let world = &world;
        async move {
            let (shopper, claim) = claimed(world, template, user, "a", 1).await;
            let payment = format!("pay-{user}");
            let (paid, given_up) = tokio::join!(
                world.apis[usize::from(user % 2 == 0)].confirm(claim.id, &payment, None),
                shopper.cancel(claim.id, None)
            );
            let paid = paid.unwrap();
            let given_up = given_up.unwrap();
            assert_ne!(paid.status == 200, given_up.status == 200, "{paid:?} {given_up:?}");
            assert!(is_expected(&paid) && is_expected(&given_up), "{paid:?} {given_up:?}");
            i64::from(paid.status == 200)
        }
    });
    let paid: i64 = join_all(duels).await.into_iter().sum();
    let given_up = DUELS - paid;
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.cancelled, counts.held), (paid, given_up, 0));
    assert_eq!(number(&world, "select count(*) from coupon_payment").await, paid);
    assert_eq!(stock(&world, template).await, (DUELS, given_up));
    assert_eq!(returns(&world, template).await, given_up);
    world.assert_sound(None).await;
    world.end().await;
}

/// A success, or a refusal that says which call was faster.
fn is_expected(answer: &Answer) -> bool {
    let (status, code) = refusal(answer);
    status == 200
        || (status == 409 && ["ALREADY_CONFIRMED", "COUPON_CANCELLED"].contains(&code.as_str()))
}

mod full {
    use super::*;

    #[tokio::test]
    async fn of_thirty_confirmations_and_cancellations_at_once_one_wins_and_stock_comes_back_once()
    {
        let two = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("hold races", two).await;
        let template = world.template(ROUNDS, |new| new.held_for(LONG)).await;
        let mut confirmed = 0;
        for user in 1..=ROUNDS {
            let (shopper, claim) = claimed(&world, template, user, "a", 1).await;
            let barrier = Arc::new(Barrier::new(AT_ONCE));
            let calls = (0..AT_ONCE).map(|call| {
                let api = &world.apis[call % 2];
                let barrier = Arc::clone(&barrier);
                let shopper = &shopper;
                let id = claim.id;
                async move {
                    barrier.wait().await;
                    match call % 3 {
                        0 => api.confirm(id, &format!("pay-{user}-{call}"), None).await.unwrap(),
                        1 => shopper.cancel(id, None).await.unwrap(),
                        _ => api.cancel(id, "a race", None).await.unwrap(),
                    }
                }
            });
            let answers = join_all(calls).await;
            assert!(answers.iter().all(is_expected), "{answers:?}");
            let succeeded = |part: usize| {
                answers.iter().skip(part).step_by(3).filter(|answer| answer.status == 200).count()
            };
            assert!(succeeded(0) <= 1, "one payment: {answers:?}");
            // The shop may also cancel what was confirmed.
            assert_eq!(succeeded(2), AT_ONCE / 3, "{answers:?}");
            confirmed += i64::from(succeeded(0) == 1);
        }
        let counts = world.count(template).await;
        assert_eq!((counts.cancelled, counts.all()), (ROUNDS, ROUNDS));
        assert_eq!(number(&world, "select count(*) from coupon_payment").await, confirmed);
        assert_eq!(stock(&world, template).await, (ROUNDS, ROUNDS));
        assert_eq!(returns(&world, template).await, ROUNDS, "each came back once");
        world.assert_sound(None).await;
        world.end().await;
    }
}
