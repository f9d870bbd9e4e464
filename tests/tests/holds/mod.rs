//! Held claims over HTTP: confirmed, cancelled, lapsed, and raced for. MySQL's rows show what became of them.

pub(crate) mod bans;
pub(crate) mod cancel;
pub(crate) mod confirm;
pub(crate) mod late;
pub(crate) mod ledger;
pub(crate) mod payments;
pub(crate) mod races;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod clocks;
    pub(crate) mod faults;
    pub(crate) mod gates;
    pub(crate) mod lists;
    pub(crate) mod metrics;
    pub(crate) mod modes;
    pub(crate) mod moving;
    pub(crate) mod queued;
}

use chrono::TimeDelta;
use coupon::{CouponId, TemplateId, UserId};
use mysql_store::verify;
use pipeline_tests::World;
use shopper::{Claimed, NewTemplate, Shopper};

/// A hold that no test outlives.
pub(crate) const LONG: TimeDelta = TimeDelta::minutes(20);

/// The shortest hold, of coupons that are to lapse.
pub(crate) const SHORT: TimeDelta = TimeDelta::milliseconds(coupon::limit::HOLD_MS_MIN);

/// A template whose coupons are held for long, two for each user.
pub(crate) fn held(new: NewTemplate) -> NewTemplate {
    NewTemplate { per_user_limit: 2, max_per_claim: 2, ..new.held_for(LONG) }
}

/// Claims coupons for a user, under a key.
pub(crate) async fn claimed(
    world: &World,
    template: TemplateId,
    user: i64,
    key: &str,
    quantity: u32,
) -> (Shopper, Claimed) {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let answer = shopper.claim(template, Some(key), quantity).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    (shopper, answer.json().unwrap())
}

pub(crate) fn ids(claim: &Claimed) -> Vec<CouponId> {
    claim.coupons.iter().map(|coupon| coupon.id).collect()
}

pub(crate) async fn number(world: &World, sql: &str) -> i64 {
    verify::number(&mut world.mysql().await, sql).await.unwrap()
}

/// Total and stock of a template in MySQL.
pub(crate) async fn stock(world: &World, template: TemplateId) -> (i64, i64) {
    let column =
        |name: &str| format!("select {name} from template_stock where template_id = {template}");
    (number(world, &column("total")).await, number(world, &column("stock")).await)
}

/// Number of returns of a template in MySQL.
pub(crate) async fn returns(world: &World, template: TemplateId) -> i64 {
    let of_it = format!("template_id = {template} and kind = 1");
    number(world, &format!("select count(*) from stock_movement where {of_it}")).await
}

/// Waits until the holds of all of a template's coupons are over, whether or not that is written.
pub(crate) async fn all_over(world: &World, template: TemplateId, coupons: i64) {
    world.until(template, |counts| counts.due + counts.lapsed == coupons).await;
}
