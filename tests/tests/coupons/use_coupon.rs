//! A coupon at checkout: used, given back, used again; and races between these.

use chrono::TimeDelta;
use coupon::{CouponId, UserId};
use pipeline_tests::{STATE_MAX, World};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, CouponQuery, NewTemplate, Shopper};
use tokio::task::JoinSet;

/// Coupons over which a use, a return and the deadline race.
const RACES: i64 = 30;

async fn claimed(world: &World, user: i64, valid_for: TimeDelta) -> (Shopper, CouponId) {
    let valid_for_ms = valid_for.num_milliseconds();
    let template = world.template(1, |new| NewTemplate { valid_for_ms, ..new }).await;
    let shopper = world.api().shopper(UserId(user)).unwrap();
    shopper.all_coupons().await.unwrap();
    let answer = shopper.claim(template, None, 1).await.unwrap();
    let claimed: Claimed = answer.json().unwrap();
    (shopper, claimed.coupons[0].id)
}

/// The status and the order in an answer, or its code.
fn outcome(answer: &Answer) -> (u16, String) {
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

/// Creates a key of the operator's own merchant with these scopes.
async fn key_with(api: &Api, scopes: &[&str]) -> Api {
    let request = api.operator(Method::POST, "/v1/api-keys");
    let body = json!({ "name": "checkout", "scopes": scopes });
    let made: Value = api.send(request.json(&body)).await.unwrap().json().unwrap();
    api.with_operator_key(made["key"].as_str().unwrap())
}

#[tokio::test]
async fn a_shopper_gives_nothing_back_and_redeems_only_where_the_template_says_so() {
    let world = World::start("self redeem").await;
    let forbidden = (403, "SELF_REDEEM_FORBIDDEN".to_owned());
    let (anna, coupon) = claimed(&world, 1, TimeDelta::hours(1)).await;
    let own = anna.redeem_myself(coupon, "use", "mine").await.unwrap();
    assert_eq!(outcome(&own), forbidden);
    assert_eq!(anna.coupon(coupon).await.unwrap().status, "unused");
    // The shop redeems. The shopper cannot give it back, although her list shows the shop's order.
    assert_eq!(anna.use_coupon(coupon, "A-1").await.unwrap().status, 200);
    let read = anna.coupon(coupon).await.unwrap().order_ref.unwrap();
    for verb in ["unuse", "unuse"] {
        let back = anna.redeem_myself(coupon, verb, &read).await.unwrap();
        assert_eq!(outcome(&back), forbidden);
    }
    for order in [read.as_str(), "A-2"] {
        assert_eq!(outcome(&anna.redeem_myself(coupon, "use", order).await.unwrap()), forbidden);
    }
    assert_eq!(anna.coupon(coupon).await.unwrap().order_ref.as_deref(), Some("A-1"));

    let at_a_till = world.template(1, |new| NewTemplate { self_redeem: true, ..new }).await;
    let claimed: Claimed = anna.claim(at_a_till, None, 1).await.unwrap().json().unwrap();
    let coupon = claimed.coupons[0].id;
    let used = (200, "used till".to_owned());
    assert_eq!(outcome(&anna.redeem_myself(coupon, "use", "till").await.unwrap()), used);
    assert_eq!(outcome(&anna.redeem_myself(coupon, "unuse", "till").await.unwrap()), forbidden);
    // One discount for one coupon, even if both orders have the same name.
    let elsewhere = (409, "COUPON_USED".to_owned());
    assert_eq!(outcome(&anna.use_coupon(coupon, "till").await.unwrap()), elsewhere);
    let either = world.template(1, |new| NewTemplate { self_redeem: true, ..new }).await;
    let claimed: Claimed = anna.claim(either, None, 1).await.unwrap().json().unwrap();
    let by_the_shop = claimed.coupons[0].id;
    assert_eq!(anna.use_coupon(by_the_shop, "A-3").await.unwrap().status, 200);
    let replay = anna.redeem_myself(by_the_shop, "use", "A-3").await.unwrap();
    assert_eq!(outcome(&replay), elsewhere);
    // A repeated call gets the same answer, whatever the template's setting is by now.
    let edit = world.api().operator(Method::PATCH, &format!("/v1/templates/{at_a_till}"));
    let edit = edit.header("If-Match", "*").json(&json!({ "self_redeem": false }));
    assert_eq!(world.api().send(edit).await.unwrap().status, 200);
    assert_eq!(outcome(&anna.redeem_myself(coupon, "use", "till").await.unwrap()), used);
    assert_eq!(outcome(&anna.redeem_myself(coupon, "use", "other").await.unwrap()), forbidden);
    assert_eq!(world.count(at_a_till).await.used, 1);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_key_redeems_its_own_merchants_coupons_only_and_each_change_is_recorded_once() {
    let world = World::start("redeem by key").await;
    let (anna, coupon) = claimed(&world, 1, TimeDelta::hours(1)).await;
    let platform = world.api().clone();
    let checkout = key_with(&platform, &["redeem"]).await;
    let ask = async |api: &Api, verb: &str, user: &str, order: &str| {
        let request = api.operator(Method::POST, &format!("/v1/coupons/{coupon}/{verb}"));
        let body = json!({ "user_id": user, "order_ref": order });
        outcome(&api.send(request.json(&body)).await.unwrap())
    };
    let nothing = (404, "COUPON_NOT_FOUND".to_owned());
    let lacking = (403, "SCOPE_LACKING".to_owned());
    for scopes in [["read", "operate"], ["admin", "read"]] {
        let other = key_with(&platform, &scopes).await;
        assert_eq!(ask(&other, "use", "1", "A-1").await, lacking, "{scopes:?}");
    }
    let templates = checkout.operator(Method::GET, "/v1/templates");
    assert_eq!(
        outcome(&checkout.send(templates).await.unwrap()),
        lacking,
        "and it does nothing else"
    );
    // Another merchant's checkout, and a user who does not own it.
    let merchant = platform.operator(Method::POST, "/v1/merchants").json(&json!({ "name": "B" }));
    let merchant: Value = platform.send(merchant).await.unwrap().json().unwrap();
    let key = json!({ "name": "till", "scopes": ["redeem"], "merchant_id": merchant["id"] });
    let key = platform.operator(Method::POST, "/v1/api-keys").json(&key);
    let key: Value = platform.send(key).await.unwrap().json().unwrap();
    let foreign = platform.with_operator_key(key["key"].as_str().unwrap());
    assert_eq!(ask(&foreign, "use", "1", "A-1").await, nothing);
    assert_eq!(ask(&checkout, "use", "2", "A-1").await, nothing);
    assert_eq!(ask(&checkout, "use", "x", "A-1").await, (422, "INVALID_USER_ID".to_owned()));
    assert_eq!(ask(&checkout, "use", "1", " ").await, (422, "INVALID_ORDER_REF".to_owned()));

    for _ in 0..2 {
        assert_eq!(ask(&checkout, "use", "1", "A-1").await, (200, "used A-1".to_owned()));
    }
    assert_eq!(ask(&foreign, "unuse", "1", "A-1").await, nothing);
    for _ in 0..2 {
        assert_eq!(ask(&checkout, "unuse", "1", "A-1").await, (200, "unused none".to_owned()));
    }
    assert_eq!(ask(&checkout, "use", "1", "A-1").await, (409, "ORDER_CANCELLED".to_owned()));
    let record = format!("/v1/audit?target=coupons/{coupon}");
    let record = platform.send(platform.operator(Method::GET, &record)).await.unwrap();
    let record: Value = record.json().unwrap();
    let lines: Vec<_> = record["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            (
                line["action"].clone(),
                line["before"]["status"].clone(),
                line["after"]["status"].clone(),
            )
        })
        .collect();
    let line =
        |action: &str, before: &str, after: &str| (json!(action), json!(before), json!(after));
    // Newest first; repeated and refused calls have no records.
    let expected = [line("coupon.unuse", "used", "unused"), line("coupon.use", "unused", "used")];
    assert_eq!(lines, expected, "{record}");
    assert_eq!(anna.coupon(coupon).await.unwrap().status, "unused");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn what_has_expired_or_is_anothers_is_not_given_back() {
    let world = World::start("give back late").await;
    let (anna, coupon) = claimed(&world, 1, TimeDelta::seconds(4)).await;
    let stranger = world.api().shopper(UserId(2)).unwrap();
    let nothing = (404, "COUPON_NOT_FOUND".to_owned());
    assert_eq!(outcome(&anna.use_coupon(coupon, "order").await.unwrap()).0, 200);
    assert_eq!(outcome(&stranger.unuse_coupon(coupon, "order").await.unwrap()), nothing);
    let valid_until = anna.coupon(coupon).await.unwrap().valid_until;
    pipeline_tests::until(async || world.clock.now(), |now| *now > valid_until).await;
    let late = anna.unuse_coupon(coupon, "order").await.unwrap();
    assert_eq!(outcome(&late), (409, "COUPON_EXPIRED".to_owned()));
    assert_eq!(late.json::<Value>().unwrap()["retryable"], json!(false));
    let again = anna.use_coupon(coupon, "order").await.unwrap();
    assert_eq!(outcome(&again), (200, "used order".to_owned()), "it stays used");
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_coupon_of_a_cancelled_order_is_listed_again_and_used_by_another() {
        let world = World::start("give back").await;
        let (anna, coupon) = claimed(&world, 1, TimeDelta::hours(1)).await;
        assert!(anna.until_visible(coupon, STATE_MAX).await.is_some());
        for (order, other) in [("first", "second"), ("second", "third")] {
            assert_eq!(
                outcome(&anna.use_coupon(coupon, order).await.unwrap()).1,
                format!("used {order}")
            );
            world.assert_sound(None).await;
            assert_eq!((listed(&anna, "unused").await, listed(&anna, "used").await), (0, 1));
            let wrong = anna.unuse_coupon(coupon, other).await.unwrap();
            assert_eq!(outcome(&wrong), (409, "COUPON_USED".to_owned()));
            for _ in 0..2 {
                let back = anna.unuse_coupon(coupon, order).await.unwrap();
                assert_eq!(outcome(&back), (200, "unused none".to_owned()));
            }
            assert!(
                anna.until_visible(coupon, STATE_MAX).await.is_some(),
                "the view raises it again"
            );
            assert_eq!((listed(&anna, "unused").await, listed(&anna, "used").await), (1, 0));
            let late = anna.use_coupon(coupon, order).await.unwrap();
            assert_eq!(outcome(&late), (409, "ORDER_CANCELLED".to_owned()));
        }
        world.assert_sound(None).await;
        world.end().await;
    }

    /// The row's guard decides: each use and each return answered 200 is a change of its own, and the final state is
    /// one that the answers allow, in any order.
    #[tokio::test]
    async fn uses_returns_and_the_deadline_race_by_the_rows_own_guard() {
        let world = World::start("give back races").await;
        // Long enough that a loaded machine gets to the first use of each coupon.
        let valid_for_ms = 8_000;
        let template = world.template(RACES, |new| NewTemplate { valid_for_ms, ..new }).await;
        let mut races = JoinSet::new();
        for user in 1..=RACES {
            let shopper = world.api().shopper(UserId(user)).unwrap();
            let clock = world.clock.clone();
            races.spawn(async move {
                let claimed: Claimed =
                    shopper.claim(template, None, 1).await.unwrap().json().unwrap();
                let coupon = claimed.coupons[0].id;
                let valid_until = shopper.coupon(coupon).await.unwrap().valid_until;
                let mut won = 0;
                for round in 0.. {
                    let one = format!("one-{round}");
                    let other = format!("other-{round}");
                    let (one, other, back) = tokio::join!(
                        shopper.use_coupon(coupon, &one),
                        shopper.use_coupon(coupon, &other),
                        shopper.unuse_coupon(coupon, &one),
                    );
                    let one = one.unwrap();
                    let other = other.unwrap();
                    let back = back.unwrap();
                    // Both uses can succeed only if `one` is given back before `other` uses the coupon.
                    let uses = [&one, &other].into_iter().filter(|used| used.status == 200).count();
                    assert!(uses < 2 || back.status == 200, "{one:?} {other:?} {back:?}");
                    // A refusal comes from another order, or from expiry after the deadline only.
                    let expired = [&one, &other, &back].into_iter().any(|outcome| {
                        outcome.json::<Value>().unwrap()["code"] == "COUPON_EXPIRED"
                    });
                    assert!(!expired || clock.now() >= valid_until, "{one:?} {other:?} {back:?}");
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
        assert!(
            ended.iter().all(|(won, _)| *won > 0),
            "everybody used it at least once: {ended:?}"
        );
        let counts = world.until(template, |counts| counts.unused == 0).await;
        assert_eq!(counts.used + counts.expired, RACES);
        let used = ended.iter().filter(|(_, status)| *status == 409).count();
        println!(
            "{} ended used, {} expired; {used} returns came too late",
            counts.used, counts.expired
        );
        // I9, I10: no use after the deadline, no change from used to expired or to another order.
        world.assert_sound(None).await;
        world.end().await;
    }
}
