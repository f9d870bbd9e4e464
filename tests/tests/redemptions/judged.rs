//! A look before the order (`validate`) says what a redemption of the coupon alone would be answered, whatever is wrong
//! with coupon, order, user, lock and money at once.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use coupon::{CouponId, CouponStatus, UserId};
use fastrand::Rng;
use mysql_store::verify;
use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, NewTemplate};

use crate::redemptions::orders::{order, post, redeem};

/// The user of every coupon here.
const ANNA: UserId = UserId(1);

/// What a coupon is, whatever its order has done.
const COUPONS: [&str; 9] = [
    "as the order left it",
    "used elsewhere",
    "used for it",
    "given back",
    "cancelled",
    "held",
    "expired",
    "lapsed",
    "not yet valid",
];

/// What an order is.
const ORDERS: [&str; 10] = [
    "without a name",
    "new",
    "redeemed it",
    "redeemed it for more",
    "redeemed another",
    "used another",
    "gave another back",
    "cancelled",
    "redeemed it and cancelled",
    "redeemed it and gave it back",
];

/// Draws of user, lock and money for each pair of a coupon and an order. Each run draws others.
const DRAWS: usize = 2;

/// Least number of different answers, so that the walk reaches most of what can refuse.
const CODES_MIN: usize = 10;

/// A coupon and an order that want each other.
#[derive(Debug)]
struct Case {
    coupon: &'static str,
    order: &'static str,
    /// The user whom the order names.
    user: Option<&'static str>,
    /// Whose lock is on the coupon.
    lock: &'static str,
    amount: i64,
    currency: &'static str,
}

#[tokio::test]
async fn a_look_at_a_coupon_says_what_its_redemption_would_be_answered() {
    let world = World::start("judged").await;
    // It decides which users, locks and sums meet which pairs.
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let mut spare = coupons(&world, COUPONS.len() * ORDERS.len() * DRAWS * 2).await;
    let mut seen = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for coupon in COUPONS {
        for order in ORDERS {
            for _ in 0..DRAWS {
                let case = Case {
                    coupon,
                    order,
                    user: pick(&mut rng, &[None, Some("1"), Some("2")]),
                    lock: pick(&mut rng, &["none", "its own", "another's"]),
                    amount: pick(&mut rng, &[5_000, 5_000, 1_999]),
                    currency: pick(&mut rng, &["EUR", "EUR", "USD"]),
                };
                let [id, other] = [spare.pop().unwrap(), spare.pop().unwrap()];
                let name = format!("order-{}", spare.len());
                prepare(&world, &case, &name, [id, other]).await;
                let said = look(&world, &case, &name, id).await;
                let done = redemption(&world, &case, &name, id).await;
                if said != done {
                    wrong.push(format!("{case:?}: the look {said:?}, the redemption {done:?}"));
                }
                *seen.entry(done.0).or_default() += 1;
            }
        }
    }
    let total = COUPONS.len() * ORDERS.len() * DRAWS;
    assert!(wrong.is_empty(), "{} of {total}: {wrong:#?}", wrong.len());
    assert!(seen.len() >= CODES_MIN && seen.contains_key("replayed"), "{seen:?}");
    world.end().await;
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

/// Claims coupons of one template, for orders of 2,000 EUR cents or more.
async fn coupons(world: &World, count: usize) -> Vec<CouponId> {
    const AT_ONCE: usize = 90;
    let stock = i64::try_from(count).unwrap() + 100;
    let new = NewTemplate::simple("A sale", stock, world.clock.now(), TimeDelta::hours(9));
    let mut new = json!(NewTemplate { per_user_limit: 0, max_per_claim: 90, ..new });
    new["discount"]["minimum_spend_minor"] = json!(2_000);
    let made: Value = post(world.api(), "/v1/templates", &new).await.json().unwrap();
    let template = made["id"].as_str().unwrap().parse().unwrap();
    world.api().turn(template, "publish").await.unwrap();
    let shopper = world.api().shopper(ANNA).unwrap();
    let mut ids = Vec::new();
    while ids.len() < count {
        let key = ids.len().to_string();
        let quantity = u32::try_from(AT_ONCE).unwrap();
        let claimed = shopper.claim(template, Some(&key), quantity).await.unwrap();
        let claimed: Claimed = claimed.json().unwrap();
        ids.extend(claimed.coupons.iter().map(|coupon| coupon.id));
    }
    ids
}

/// Brings order, coupon and lock about: the order by calls, the others in MySQL.
async fn prepare(world: &World, case: &Case, name: &str, [id, other]: [CouponId; 2]) {
    let api = world.api();
    let redeemed = async |amount: i64, coupon: CouponId| {
        let answer = redeem(api, &order(name, amount, &[coupon])).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    };
    let back = async |body: Value| {
        let answer = post(api, &format!("/v1/redemptions/{name}/rollback"), &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let single = async |verb: &str| {
        let body = json!({ "user_id": "1", "order_ref": name });
        let answer = post(api, &format!("/v1/coupons/{other}/{verb}"), &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    match case.order {
        "redeemed it" => redeemed(5_000, id).await,
        "redeemed it for more" => redeemed(6_000, id).await,
        "redeemed another" => redeemed(5_000, other).await,
        "used another" => single("use").await,
        "gave another back" => {
            single("use").await;
            single("unuse").await;
        }
        "cancelled" => back(json!({ "reason": "x" })).await,
        "redeemed it and cancelled" => {
            redeemed(5_000, id).await;
            back(json!({ "reason": "x" })).await;
        }
        "redeemed it and gave it back" => {
            redeemed(5_000, id).await;
            back(json!({ "reason": "x", "coupons": [id.to_string()] })).await;
        }
        _ => {}
    }
    let mut statements = Vec::new();
    if let Some((status, more)) = row(case.coupon, name) {
        let code = status.code();
        statements.push(format!(
            "update user_coupon set status = {code}, version = version + 1, {more} where id = {id}"
        ));
    }
    let keeper = match case.lock {
        "its own" => Some(name),
        "another's" => Some("another-order"),
        _ => None,
    };
    statements.extend(keeper.map(|keeper| {
        format!(
            "insert into coupon_lock (coupon_id, order_ref, locked_until) \
             values ({id}, '{keeper}', utc_timestamp(3) + interval 1 hour)"
        )
    }));
    for statement in statements {
        verify::execute(&mut world.mysql().await, &statement).await.unwrap();
    }
}

/// Returns a coupon's status and other columns in MySQL.
fn row(coupon: &str, name: &str) -> Option<(CouponStatus, String)> {
    let used_for = |order: &str| format!("used_at = utc_timestamp(3), order_ref = '{order}'");
    Some(match coupon {
        "used elsewhere" => (CouponStatus::Used, used_for("elsewhere")),
        "used for it" => (CouponStatus::Used, used_for(name)),
        "given back" => (CouponStatus::Unused, format!("used_at = null, order_ref = '{name}'")),
        "cancelled" => (CouponStatus::Cancelled, "used_at = null".to_owned()),
        "held" => (CouponStatus::Held, "used_at = null".to_owned()),
        "expired" => (CouponStatus::Expired, "used_at = null".to_owned()),
        "lapsed" => (CouponStatus::Lapsed, "used_at = null".to_owned()),
        "not yet valid" => {
            let from =
                "used_at = null, order_ref = null, valid_from = utc_timestamp(3) + interval 1 hour";
            (CouponStatus::Unused, from.to_owned())
        }
        _ => return None,
    })
}

/// The code of a refusal or `redeemed`, and what the coupon takes off.
type Said = (String, Option<i64>);

/// What the look says of the coupon.
async fn look(world: &World, case: &Case, name: &str, id: CouponId) -> Said {
    let mut body = json!({ "amount": case.amount, "currency": case.currency });
    if case.order != "without a name" {
        body["order_ref"] = json!(name);
    }
    if let Some(user) = case.user {
        body["user_id"] = json!(user);
    }
    let answer = post(world.api(), &format!("/v1/coupons/{id}/validate"), &body).await;
    let body: Value = answer.json().unwrap();
    match body["code"].as_str() {
        Some(code) => {
            assert!(answer.status == 404 || body["valid"] == false, "{answer:?}");
            (code.to_owned(), None)
        }
        None => (fits(case), body["discount"].as_i64().filter(|_| body["valid"] == true)),
    }
}

/// The redemption of an order that has redeemed just this is a replay.
fn fits(case: &Case) -> String {
    if case.order == "redeemed it" { "replayed" } else { "redeemed" }.to_owned()
}

/// What the redemption is answered.
async fn redemption(world: &World, case: &Case, name: &str, id: CouponId) -> Said {
    // An order that had no name gets one that nobody knows.
    let later = format!("{name}-later");
    let name = if case.order == "without a name" { &later } else { name };
    let mut body = order(name, case.amount, &[id]);
    body["currency"] = json!(case.currency);
    if let Some(user) = case.user {
        body["user_id"] = json!(user);
    }
    let answer: Answer = redeem(world.api(), &body).await;
    let body: Value = answer.json().unwrap();
    match body["code"].as_str() {
        Some(code) => (code.to_owned(), None),
        None => {
            assert_eq!(answer.replayed, case.order == "redeemed it", "{answer:?}");
            (fits(case), body["discount"].as_i64())
        }
    }
}
