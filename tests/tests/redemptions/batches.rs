//! Many orders at once share transactions, and none affects the others.

use coupon::{CouponId, TemplateId, UserId};
use devstack::Flavor;
use futures::future::join_all;
use mysql_store::verify;
use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::{Answer, Claimed};

use crate::redemptions::orders::{order, outcome, post, redeem};

/// Orders of each kind that are sent at once.
const ORDERS: i64 = 40;

/// What each order costs, in minor units.
const AMOUNT: i64 = 1_000;

async fn claimed(world: &World, template: TemplateId, user: i64) -> CouponId {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
    claimed.coupons[0].id
}

async fn number(world: &World, sql: &str) -> i64 {
    verify::number(&mut world.mysql().await, sql).await.unwrap()
}

fn statuses(answers: &[Answer]) -> Vec<(u16, String)> {
    let mut all: Vec<_> = answers.iter().map(outcome).collect();
    all.sort();
    all.dedup();
    all
}

#[tokio::test]
async fn many_orders_at_once_share_transactions_and_one_that_does_not_fit_costs_no_other() {
    crowded(Flavor::Mariadb).await;
}

async fn crowded(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "crowded orders", |options| options).await;
    let Some(world) = started else { return };
    let template = world.template(10 * ORDERS, |new| new).await;
    let mut plain = Vec::new();
    for user in 1..=ORDERS {
        plain.push(claimed(&world, template, user).await);
    }
    let plain_orders: Vec<Value> =
        plain.iter().map(|id| order(&format!("plain-{id}"), AMOUNT, &[*id])).collect();
    // Each of the others fails for a reason of its own: currency, no such coupon, an order that is cancelled.
    let mut odd = Vec::new();
    for user in ORDERS + 1..=ORDERS + 3 {
        odd.push(claimed(&world, template, user).await);
    }
    let mut foreign = order("foreign", AMOUNT, &[odd[0]]);
    foreign["currency"] = json!("USD");
    let unknown = order("unknown", AMOUNT, &[CouponId(77)]);
    let cancelled = order("cancelled", AMOUNT, &[odd[2]]);
    let cancel = json!({ "reason": "not wanted" });
    let path = "/v1/redemptions/cancelled/rollback";
    let done = post(world.api(), path, &cancel).await;
    assert_eq!(done.status, 200, "{done:?}");

    // Every plain order twice, the odd ones among them.
    let sent: Vec<&Value> = plain_orders
        .iter()
        .flat_map(|one| [one, one])
        .chain([&foreign, &unknown, &cancelled])
        .collect();
    let answers = join_all(sent.iter().map(|body| redeem(world.api(), body))).await;
    let (twice, refused) = answers.split_at(plain_orders.len() * 2);
    assert_eq!(statuses(twice), [(201, String::new())], "{twice:?}");
    for pair in twice.chunks(2) {
        assert_eq!(pair[0].body, pair[1].body, "equal requests, equal bytes");
    }
    let codes: Vec<String> = refused.iter().map(|answer| outcome(answer).1).collect();
    assert_eq!(codes, ["CURRENCY_MISMATCH", "COUPON_NOT_FOUND", "ORDER_CANCELLED"]);

    let redeemed = "select count(*) from redemption where kind = 1";
    assert_eq!(number(&world, redeemed).await, ORDERS, "each order once");
    let used = "select count(*) from user_coupon where status = 1";
    assert_eq!(number(&world, used).await, ORDERS);
    let lines = "select count(*) from audit_entry where action = 'coupon.use'";
    assert_eq!(number(&world, lines).await, ORDERS, "a line of the record for each");
    let together = "select count(*) from (select created_at from redemption where kind = 1 \
                    group by created_at having count(*) > 1) shared";
    assert!(number(&world, together).await > 0, "no transaction had several orders");
    // Repeated, they get the stored bytes.
    for (body, first) in plain_orders.iter().zip(twice.chunks(2)) {
        assert_eq!(redeem(world.api(), body).await.body, first[0].body);
    }
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn many_orders_at_once_on_mysql_share_transactions_and_one_that_does_not_fit_costs_no_other()
     {
        crowded(Flavor::Mysql).await;
    }
}
