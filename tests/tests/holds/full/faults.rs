//! An api or the gate is lost in the middle of payments, cancellations and lapses.

use chrono::TimeDelta;
use coupon::UserId;
use devstack::PlatformOptions;
use pipeline_tests::{STATE_MAX, World, until};
use shopper::Wish;

use crate::{
    claims::{
        faults::is_stopped,
        full::epochs::{lose_gate, open_again},
    },
    holds::{LONG, claimed, ids, number, returns, stock},
    queued::arm,
};

/// The hold of these coupons: enough time to pay on a busy machine.
const HOLD: TimeDelta = TimeDelta::seconds(3);

/// Coupons of the sale whose gate is lost.
const STOCK: i64 = 200;

#[tokio::test]
async fn an_api_that_dies_or_stops_before_it_commits_a_payment_or_a_return_leaves_one_of_each() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_with("hold kills", two).await;
    let template = world.template(10, |new| new.held_for(LONG)).await;
    let mut user = 0;
    for action in ["kill", "stop"] {
        for is_paid in [true, false] {
            user += 1;
            let (_, claim) = claimed(&world, template, user, "a", 1).await;
            arm(&mut world.platform.apis[1], &format!("api.before_commit={action}")).await;
            let payment = format!("pay-{user}");
            let lost = world.apis[1].clone();
            let mut call = {
                let payment = payment.clone();
                tokio::spawn(async move {
                    if is_paid {
                        lost.confirm(claim.id, &payment, None).await
                    } else {
                        lost.cancel(claim.id, "a fault", None).await
                    }
                })
            };
            if action == "kill" {
                world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
                (&mut call).await.unwrap().unwrap_err();
            } else {
                until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;
            }
            // The shop sends its call again. What the lost api began holds the coupon for seconds at most.
            let again = async || {
                let answer = if is_paid {
                    world.apis[0].confirm(claim.id, &payment, None).await
                } else {
                    world.apis[0].cancel(claim.id, "a fault", None).await
                };
                answer.unwrap()
            };
            let answer = until(again, |answer| !answer.is_passing()).await;
            assert_eq!(answer.status, 200, "{action}, {is_paid}: {answer:?}");
            if action == "stop" {
                world.platform.apis[1].resume().unwrap();
                drop(call.await);
            }
            let status = format!("select status from user_coupon where id = {}", ids(&claim)[0]);
            assert_eq!(number(&world, &status).await, if is_paid { 0 } else { 3 }, "{action}");
        }
    }
    assert_eq!(number(&world, "select count(*) from coupon_payment").await, 2);
    assert_eq!((stock(&world, template).await, returns(&world, template).await), ((10, 8), 2));
    arm(&mut world.platform.apis[1], "").await;
    world.assert_sound(None).await;
    world.end().await;
}

/// The gate is rebuilt from MySQL while units come back, several times: what it sells afterwards is what came back.
#[tokio::test]
async fn a_gate_that_is_lost_while_holds_lapse_sells_each_unit_that_came_back_once() {
    let world = World::start("hold gates").await;
    let template = world.template(STOCK, |new| new.held_for(HOLD)).await;
    let wave = |first: i64| {
        let wishes =
            (first..first + STOCK).map(|user| Wish::one(template, UserId(user)).with_key("a"));
        wishes.collect::<Vec<_>>()
    };
    for round in 1..=3 {
        let run = world.crowd().run(wave(round * 1_000)).await.unwrap();
        assert_eq!(run.given_up, 0);
        for lost in 1..=3 {
            world
                .until(template, |counts| counts.lapsed >= (round - 1) * STOCK + lost * STOCK / 8)
                .await;
            open_again(&world, template, 0).await;
            lose_gate(&world, template).await;
        }
        world.until(template, |counts| counts.held == 0 && counts.lapsed == counts.all()).await;
        assert_eq!(stock(&world, template).await, (STOCK, STOCK));
    }
    open_again(&world, template, 0).await;
    // The last ones pay.
    let mut paid = 0;
    for user in 1..=STOCK {
        let (_, claim) = claimed(&world, template, user, "a", 1).await;
        let answer = world.api().confirm(claim.id, &format!("pay-{user}"), None).await.unwrap();
        paid += i64::from(answer.status == 200);
    }
    assert_eq!(paid, STOCK, "each is paid for at once");
    let more = world.api().shopper(UserId(9_999)).unwrap().claim(template, Some("a"), 1).await;
    assert_eq!(more.unwrap().code().as_deref(), Some("SOLD_OUT"));
    assert_eq!(stock(&world, template).await, (STOCK, 0));
    world.assert_sound(None).await;
    world.end().await;
}
