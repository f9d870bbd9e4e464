//! A coupon at checkout: used, given back, used again; and what meets what at the same moment.

use chrono::TimeDelta;
use coupon::{CouponId, UserId};
use pipeline_tests::{STATE_MAX, World};
use serde_json::{Value, json};
use shopper::{Answer, Claimed, CouponQuery, NewTemplate, Shopper};
use tokio::task::JoinSet;

/// Coupons over which a use, a return and the deadline race.
const RACES: i64 = 60;

async fn claimed(world: &World, user: i64, valid_for: TimeDelta) -> (Shopper, CouponId) {
    let valid_for_ms = valid_for.num_milliseconds();
    let template = world.template(1, |new| NewTemplate { valid_for_ms, ..new }).await;
    let shopper = world.api().shopper(UserId(user)).unwrap();
    shopper.all_coupons().await.unwrap();
    let answer = shopper.claim(template, None, 1).await.unwrap();
    let claimed: Claimed = answer.json().unwrap();
    (shopper, claimed.coupons[0].id)
}

/// The status and the order that an answer shows, or its code.
fn told(answer: &Answer) -> (u16, String) {
    let body: Value = answer.json().unwrap();
    let order = body["order_ref"].as_str().unwrap_or("none");
    let word = body["code"].as_str().map(str::to_owned);
    let word = word.unwrap_or_else(|| format!("{} {order}", body["status"].as_str().unwrap()));
    (answer.status, word)
}

async fn listed(shopper: &Shopper, status: &'static str) -> usize {
    let query = CouponQuery { status: Some(status), ..CouponQuery::default() };
    shopper.coupons(&query).await.unwrap().data.len()
}

#[tokio::test]
async fn a_coupon_of_a_cancelled_order_is_listed_again_and_used_by_another() {
    let world = World::start("give back").await;
    let (anna, coupon) = claimed(&world, 1, TimeDelta::hours(1)).await;
    assert!(anna.until_visible(coupon, STATE_MAX).await.is_some());
    for (order, other) in [("first", "second"), ("second", "third")] {
        assert_eq!(told(&anna.use_coupon(coupon, order).await.unwrap()).1, format!("used {order}"));
        world.assert_sound(None).await;
        assert_eq!((listed(&anna, "unused").await, listed(&anna, "used").await), (0, 1));
        let wrong = anna.unuse_coupon(coupon, other).await.unwrap();
        assert_eq!(told(&wrong), (409, "COUPON_USED".to_owned()));
        for _ in 0..2 {
            let back = anna.unuse_coupon(coupon, order).await.unwrap();
            assert_eq!(told(&back), (200, "unused none".to_owned()));
        }
        assert!(anna.until_visible(coupon, STATE_MAX).await.is_some(), "the view raises it again");
        assert_eq!((listed(&anna, "unused").await, listed(&anna, "used").await), (1, 0));
        let late = anna.use_coupon(coupon, order).await.unwrap();
        assert_eq!(told(&late), (409, "ORDER_CANCELLED".to_owned()));
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn what_has_expired_or_is_anothers_is_not_given_back() {
    let world = World::start("give back late").await;
    let (anna, coupon) = claimed(&world, 1, TimeDelta::milliseconds(1_500)).await;
    let stranger = world.api().shopper(UserId(2)).unwrap();
    let nothing = (404, "COUPON_NOT_FOUND".to_owned());
    assert_eq!(told(&anna.use_coupon(coupon, "order").await.unwrap()).0, 200);
    assert_eq!(told(&stranger.unuse_coupon(coupon, "order").await.unwrap()), nothing);
    let valid_until = anna.coupon(coupon).await.unwrap().valid_until;
    pipeline_tests::until(async || world.clock.now(), |now| *now > valid_until).await;
    let late = anna.unuse_coupon(coupon, "order").await.unwrap();
    assert_eq!(told(&late), (409, "COUPON_EXPIRED".to_owned()));
    assert_eq!(late.json::<Value>().unwrap()["retryable"], json!(false));
    let again = anna.use_coupon(coupon, "order").await.unwrap();
    assert_eq!(told(&again), (200, "used order".to_owned()), "it stays used");
    world.assert_sound(None).await;
    world.end().await;
}

/// One row decides: each use and each return that was answered 200 is a change of its own, and the last
/// state is one that the answers allow, whoever came first.
#[tokio::test]
async fn uses_returns_and_the_deadline_race_by_the_rows_own_guard() {
    let world = World::start("give back races").await;
    let valid_for_ms = 2_500;
    let template = world.template(RACES, |new| NewTemplate { valid_for_ms, ..new }).await;
    let mut races = JoinSet::new();
    for user in 1..=RACES {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let clock = world.clock.clone();
        races.spawn(async move {
            let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
            let coupon = claimed.coupons[0].id;
            let valid_until = shopper.coupon(coupon).await.unwrap().valid_until;
            let mut won = 0;
            for round in 0.. {
                let (one, other) = (format!("one-{round}"), format!("other-{round}"));
                let (one, other, back) = tokio::join!(
                    shopper.use_coupon(coupon, &one),
                    shopper.use_coupon(coupon, &other),
                    shopper.unuse_coupon(coupon, &one),
                );
                let (one, other, back) = (one.unwrap(), other.unwrap(), back.unwrap());
                // The return of an order that used it makes room; its own order cannot come back.
                let uses = [&one, &other].into_iter().filter(|used| used.status == 200).count();
                assert!(uses < 2 || back.status == 200, "{one:?} {other:?} {back:?}");
                won += uses;
                let cancel = if other.status == 200 {
                    format!("other-{round}")
                } else {
                    format!("one-{round}")
                };
                let back = shopper.unuse_coupon(coupon, &cancel).await.unwrap();
                if clock.now() > valid_until {
                    return (won, back.status);
                }
            }
            (won, 0)
        });
    }
    let ended = races.join_all().await;
    assert!(ended.iter().all(|(won, _)| *won > 0), "everybody used it at least once: {ended:?}");
    let counts = world.until(template, |counts| counts.unused == 0).await;
    assert_eq!(counts.used + counts.expired, RACES);
    let used = ended.iter().filter(|(_, status)| *status == 409).count();
    println!(
        "{} ended used, {} expired; {used} returns came too late",
        counts.used, counts.expired
    );
    // I9, I10: nobody used it after the deadline, nothing went from used to expired or to another order.
    world.assert_sound(None).await;
    world.end().await;
}
