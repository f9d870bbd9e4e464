//! A checkout: coupons are validated, locked, redeemed together with money, and rolled back.

use chrono::TimeDelta;
use coupon::{CouponId, TemplateId, UserId};
use devstack::Flavor;
use mysql_store::redemption_totals::{self, Totals};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};

use crate::operators::cli::Cli;

/// The user of every coupon here.
const ANNA: UserId = UserId(1);

/// Publishes a template with this discount.
async fn template(world: &World, discount: Value, stackable: bool) -> TemplateId {
    let new = NewTemplate::simple("A sale", 100, world.clock.now(), TimeDelta::hours(1));
    let mut new = json!(NewTemplate { stackable, ..new });
    new["discount"] = discount;
    let made = post(world.api(), "/v1/templates", &new).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id: Value = made.json().unwrap();
    let id = id["id"].as_str().unwrap().parse().unwrap();
    world.api().turn(id, "publish").await.unwrap();
    id
}

async fn coupon_of(world: &World, template: TemplateId, user: UserId) -> CouponId {
    let shopper = world.api().shopper(user).unwrap();
    let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
    claimed.coupons[0].id
}

/// Publishes a template and claims its coupon for [`ANNA`].
async fn coupon(world: &World, discount: Value) -> CouponId {
    coupon_of(world, template(world, discount, true).await, ANNA).await
}

fn five() -> Value {
    json!({ "kind": "amount_off", "amount_off_minor": 500, "currency": "EUR" })
}

pub(crate) async fn post(api: &Api, path: &str, body: &Value) -> Answer {
    api.send(api.operator(Method::POST, path).json(body)).await.unwrap()
}

pub(crate) fn order(name: &str, amount: i64, coupons: &[CouponId]) -> Value {
    let coupons: Vec<String> = coupons.iter().map(ToString::to_string).collect();
    json!({ "order_ref": name, "amount": amount, "currency": "EUR", "coupons": coupons })
}

pub(crate) async fn redeem(api: &Api, body: &Value) -> Answer {
    post(api, "/v1/redemptions", body).await
}

async fn roll_back(api: &Api, name: &str, body: &Value) -> Answer {
    post(api, &format!("/v1/redemptions/{name}/rollback"), body).await
}

pub(crate) async fn lock(api: &Api, coupon: CouponId, name: &str, for_ms: i64) -> Answer {
    let body = json!({ "order_ref": name, "for_ms": for_ms });
    post(api, &format!("/v1/coupons/{coupon}/lock"), &body).await
}

pub(crate) async fn validate(api: &Api, coupon: CouponId, name: &str, amount: i64) -> Value {
    let body = json!({ "order_ref": name, "amount": amount, "currency": "EUR" });
    let answer = post(api, &format!("/v1/coupons/{coupon}/validate"), &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json().unwrap()
}

/// The status, and the code of a refusal.
pub(crate) fn outcome(answer: &Answer) -> (u16, String) {
    let body: Value = answer.json().unwrap();
    (answer.status, body["code"].as_str().unwrap_or_default().to_owned())
}

pub(crate) fn refused(code: &str) -> (u16, String) {
    (409, code.to_owned())
}

#[tokio::test]
async fn an_order_redeems_coupons_with_money_once_and_gives_them_back() {
    with_money(Flavor::Mariadb).await;
}

async fn with_money(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "redemption", |options| options).await;
    let Some(world) = started else { return };
    let api = world.api();
    let five_off = template(&world, five(), true).await;
    let five = coupon_of(&world, five_off, ANNA).await;
    let tenth = json!({ "kind": "percent_off", "percent_off": "10", "cap_minor": 5_000, "currency": "EUR" });
    let tenth = coupon(&world, tenth).await;
    let looked = validate(api, five, "A 1", 4_000).await;
    assert_eq!(
        (&looked["valid"], &looked["discount"], &looked["left_to_pay"]),
        (&json!(true), &json!(500), &json!(3_500))
    );

    let asked = order("A 1", 10_005, &[five, tenth]);
    let first = redeem(api, &asked).await;
    let body: Value = first.json().unwrap();
    // 1000.5 is rounded to the even 1000; the percentage comes first, however the coupons are named.
    let shown = [&body["discount"], &body["left_to_pay"], &body["coupons"][0]["discount"]];
    assert_eq!((first.status, shown), (201, [&json!(1_500), &json!(8_505), &json!(1_000)]));
    for coupons in [&[five, tenth], &[tenth, five]] {
        let again = redeem(api, &order("A 1", 10_005, coupons)).await;
        assert_eq!((again.status, again.replayed), (201, true));
        assert_eq!(again.body, first.body, "byte by byte");
    }
    let mut connection = world.mysql().await;
    let mut totals = Totals::default();
    let rows_max = redemption_totals::PIECE;
    let rest =
        redemption_totals::add_piece(&mut connection, five_off, None, rows_max, &mut totals).await;
    assert_eq!(rest.unwrap(), None, "it is all in one piece");
    assert_eq!((totals.redeemed, totals.discount, totals.revenue), (1, 500, 8_505));
    for other in [order("A 1", 10_006, &[five, tenth]), order("A 1", 10_005, &[five])] {
        assert_eq!(outcome(&redeem(api, &other).await), refused("ORDER_REDEEMED"));
    }
    let looked = validate(api, five, "B", 4_000).await;
    assert_eq!((&looked["valid"], &looked["code"]), (&json!(false), &json!("COUPON_USED")));

    let part = json!({ "reason": "The shoes came back.", "coupons": [five.to_string()] });
    let back = roll_back(api, "A%201", &part).await;
    assert_eq!((back.status, roll_back(api, "A%201", &part).await.body), (200, back.body.clone()));
    let state = api.send(api.operator(Method::GET, "/v1/redemptions/A%201")).await.unwrap();
    let state: Value = state.json().unwrap();
    assert_eq!((&state["discount"], &state["cancelled_at"]), (&json!(1_000), &Value::Null));
    assert_eq!(outcome(&redeem(api, &asked).await), refused("ORDER_CANCELLED"));
    let all = json!({ "reason": "The order was cancelled." });
    let back = roll_back(api, "A%201", &all).await;
    assert_eq!((back.status, roll_back(api, "A%201", &all).await.body), (200, back.body.clone()));
    let reasons: Value = back.json().unwrap();
    assert_eq!(reasons["coupons"].as_array().unwrap().len(), 2, "{reasons}");
    assert!(back.body.contains("The shoes came back."), "the first reason stays: {reasons}");
    assert_eq!(world.count(five_off).await.used, 0);

    // A cancellation that overtakes its redemption; then the coupons serve another order.
    let early = roll_back(api, "A-2", &all).await;
    assert_eq!((early.status, early.json::<Value>().unwrap()["coupons"].clone()), (200, json!([])));
    assert_eq!(
        outcome(&redeem(api, &order("A-2", 500, &[five])).await),
        refused("ORDER_CANCELLED")
    );
    let small = redeem(api, &order("A-3", 300, &[five])).await;
    assert_eq!(small.json::<Value>().unwrap()["left_to_pay"], 0, "never more than the amount");
    let unknown = api.send(api.operator(Method::GET, "/v1/redemptions/nobody")).await.unwrap();
    assert_eq!(outcome(&unknown), (404, "REDEMPTION_NOT_FOUND".to_owned()));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_coupon_that_does_not_fit_is_refused_with_all_others_of_its_order() {
    let world = World::start("redemption refused").await;
    let api = world.api();
    let five_off = template(&world, five(), true).await;
    let five = coupon_of(&world, five_off, ANNA).await;
    let dollars = json!({ "kind": "amount_off", "amount_off_minor": 500, "currency": "USD" });
    let large = json!({ "kind": "amount_off", "amount_off_minor": 500, "minimum_spend_minor": 2_000, "currency": "EUR" });
    let dollars = coupon(&world, dollars).await;
    let large = coupon(&world, large).await;
    let alone =
        template(&world, json!({ "kind": "free_shipping", "currency": "EUR" }), false).await;
    let alone = coupon_of(&world, alone, ANNA).await;
    let used = coupon(&world, json!({ "kind": "free_shipping", "currency": "EUR" })).await;
    assert_eq!(redeem(api, &order("first", 100, &[used])).await.status, 201);
    for (bad, code) in [
        (dollars, "CURRENCY_MISMATCH"),
        (large, "BELOW_MINIMUM"),
        (alone, "NOT_STACKABLE"),
        (used, "COUPON_USED"),
    ] {
        let answer = redeem(api, &order("A", 1_999, &[five, bad])).await;
        let body: Value = answer.json().unwrap();
        assert_eq!(
            (outcome(&answer), &body["coupon_id"]),
            (refused(code), &json!(bad.to_string()))
        );
        if code == "BELOW_MINIMUM" {
            assert_eq!(body["minimum_spend_minor"], 2_000);
            assert!(body["detail"].as_str().unwrap().contains("€20.00"), "{body}");
        }
        if code != "NOT_STACKABLE" {
            assert_eq!(validate(api, bad, "A", 1_999).await["code"], code);
        }
    }
    let strangers = coupon_of(&world, five_off, UserId(2)).await;
    let invalid = (422, "INVALID_REDEMPTION".to_owned());
    assert_eq!(outcome(&redeem(api, &order("A", 100, &[five, strangers])).await), invalid);
    let mut named = order("A", 100, &[five]);
    named["user_id"] = json!("2");
    assert_eq!(outcome(&redeem(api, &named).await), (404, "COUPON_NOT_FOUND".to_owned()));
    let mut lower = order("A", 100, &[five]);
    lower["currency"] = json!("eur");
    for body in [order("A", -1, &[five]), order("A", 100, &[]), lower] {
        assert_eq!(outcome(&redeem(api, &body).await), invalid, "{body}");
    }
    assert_eq!(outcome(&lock(api, five, "A", 0).await), invalid);
    assert_eq!(outcome(&lock(api, five, "A", 1_800_001).await), invalid);
    assert_eq!(outcome(&roll_back(api, "A", &json!({ "reason": " " })).await), invalid);
    let text = json!({ "order_ref": "A", "amount": 1, "currency": "EUR", "coupons": ["x"] });
    assert_eq!(outcome(&redeem(api, &text).await), (400, "MALFORMED_BODY".to_owned()));
    let foreign = json!({ "reason": "r", "coupons": [five.to_string()] });
    assert_eq!(
        outcome(&roll_back(api, "first", &foreign).await),
        (404, "COUPON_NOT_FOUND".to_owned())
    );
    // None of this used a coupon; a single use has the same rules.
    assert_eq!(world.count(five_off).await.used, 0);
    let anna = api.shopper(ANNA).unwrap();
    assert_eq!(anna.use_coupon(five, "B").await.unwrap().status, 200);
    assert_eq!(outcome(&anna.use_coupon(alone, "B").await.unwrap()), refused("NOT_STACKABLE"));
    assert_eq!(
        outcome(&redeem(api, &order("B", 2_000, &[large])).await),
        refused("ORDER_REDEEMED")
    );
    others_redeem_nothing(&world, five).await;
    from_the_command_line(&world, large).await;
    world.assert_sound(None).await;
    world.end().await;
}

/// Keys without the scope, and other merchants' keys.
async fn others_redeem_nothing(world: &World, coupon: CouponId) {
    let api = world.api();
    let merchant = post(api, "/v1/merchants", &json!({ "name": "B" })).await;
    let merchant: Value = merchant.json().unwrap();
    let body = order("theirs", 100, &[coupon]);
    for (key, refused) in [
        (json!({ "name": "k", "scopes": ["operate"] }), (403, "SCOPE_LACKING")),
        (
            json!({ "name": "k", "scopes": ["redeem"], "merchant_id": merchant["id"] }),
            (404, "COUPON_NOT_FOUND"),
        ),
    ] {
        let key: Value = post(api, "/v1/api-keys", &key).await.json().unwrap();
        let other = api.with_operator_key(key["key"].as_str().unwrap());
        let (status, code) = outcome(&redeem(&other, &body).await);
        assert_eq!((status, code.as_str()), refused);
    }
}

async fn from_the_command_line(world: &World, coupon: CouponId) {
    let cli = Cli::of(world);
    let bought = cli.json(&format!("redeem shop/1 {coupon} --amount 20.00 --user 1")).await;
    assert_eq!(bought["left_to_pay"], 1_500);
    assert_eq!(cli.json("redemption show shop/1").await["discount"], 500);
    let back = cli.json("rollback shop/1 --reason cancelled").await;
    assert_eq!(back["coupons"][0]["reason"], "cancelled");
    let looked = cli.json(&format!("validate {coupon} --amount 19.99")).await;
    assert_eq!(looked["code"], "BELOW_MINIMUM");
    let kept = cli.json(&format!("lock {coupon} shop/2 --for 60")).await;
    assert_eq!(kept["order_ref"], "shop/2");
}

#[tokio::test]
async fn a_locked_coupon_serves_its_order_alone_until_the_lock_lapses() {
    locked(Flavor::Mariadb).await;
}

async fn locked(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "redemption lock", |options| options).await;
    let Some(world) = started else { return };
    let api = world.api();
    let at_a_till = world.template(10, |new| NewTemplate { self_redeem: true, ..new }).await;
    let kept = coupon_of(&world, at_a_till, ANNA).await;
    let anna = api.shopper(ANNA).unwrap();
    for _ in 0..2 {
        assert_eq!(lock(api, kept, "A", 1_800_000).await.status, 200, "again for the same order");
    }
    let locked = refused("COUPON_LOCKED");
    assert_eq!(outcome(&lock(api, kept, "B", 1_000).await), locked);
    assert_eq!(outcome(&redeem(api, &order("B", 900, &[kept])).await), locked);
    assert_eq!(outcome(&anna.use_coupon(kept, "B").await.unwrap()), locked);
    assert_eq!(outcome(&anna.redeem_myself(kept, "use", "A").await.unwrap()), locked);
    assert_eq!(validate(api, kept, "B", 900).await["code"], "COUPON_LOCKED");
    assert_eq!(validate(api, kept, "A", 900).await["valid"], true);
    assert_eq!(world.count(at_a_till).await.used, 0);
    assert_eq!(redeem(api, &order("A", 900, &[kept])).await.status, 201);
    assert_eq!(outcome(&lock(api, kept, "A", 1_000).await), refused("COUPON_USED"));
    // Given back, it is free: the lock has served.
    assert_eq!(roll_back(api, "A", &json!({ "reason": "cancelled" })).await.status, 200);
    assert_eq!(lock(api, kept, "B", 300).await.status, 200);
    let late = async || redeem(api, &order("C", 900, &[kept])).await;
    let answer = until(late, |answer| answer.status != 409).await;
    assert_eq!(answer.status, 201, "the lock lapsed by itself: {answer:?}");
    let other = coupon_of(&world, at_a_till, UserId(2)).await;
    let bert = api.shopper(UserId(2)).unwrap();
    assert_eq!(bert.redeem_myself(other, "use", "C").await.unwrap().status, 200);
    // A till's order does not belong to the shop, whatever its shopper calls it.
    let state = api.send(api.operator(Method::GET, "/v1/redemptions/C")).await.unwrap();
    assert_eq!(state.json::<Value>().unwrap()["coupons"].as_array().unwrap().len(), 1);
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn a_locked_coupon_on_mysql_serves_its_order_alone_until_the_lock_lapses() {
        locked(Flavor::Mysql).await;
    }

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn an_order_on_mysql_redeems_coupons_with_money_once_and_gives_them_back() {
        with_money(Flavor::Mysql).await;
    }
}
