//! Finds coupons and redemptions that disagree, and orders whose money does not add up.

use coupon::{CouponId, CouponStatus, RedemptionId};
use sqlx::{MySqlConnection, Row};

use super::{EXAMPLES, read_all};
use crate::{
    StoreError,
    coupons::redemption::{REDEEM, ROLLBACK},
};

/// Version of the migration with which redemptions were recorded.
pub(super) const RECORDED_SINCE: i64 = 20_261_124_000_001;

/// Returns used coupons without a standing redemption for their order. Coupons that were claimed before redemptions
/// were recorded are not checked.
pub async fn unredeemed(connection: &mut MySqlConnection) -> Result<Vec<CouponId>, StoreError> {
    let rows = sqlx::query(
        "select coupon.id from user_coupon coupon where coupon.status = ? \
         and coupon.claimed_at > (select installed_on from _sqlx_migrations where version = ?) \
         and not exists (select 1 from redemption made \
          left join redemption undone on undone.undoes = made.id \
          where made.coupon_id = coupon.id and made.kind = ? and undone.id is null \
          and made.order_ref = cast(coupon.order_ref as binary)) limit ?",
    )
    .bind(CouponStatus::Used.code())
    .bind(RECORDED_SINCE)
    .bind(REDEEM)
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for coupons that nobody redeemed", rows, |row| Ok(CouponId(row.try_get(0)?)))
}

/// Returns redemptions that stand although their coupon is not used for their order, or is another user's, template's or
/// merchant's.
pub async fn unused(connection: &mut MySqlConnection) -> Result<Vec<RedemptionId>, StoreError> {
    let rows = sqlx::query(
        "select made.id from redemption made left join redemption undone on undone.undoes = made.id \
         left join user_coupon coupon on coupon.id = made.coupon_id and coupon.status = ? \
         and cast(coupon.order_ref as binary) = made.order_ref and coupon.user_id = made.user_id \
         and coupon.template_id = made.template_id and coupon.merchant_id = made.merchant_id \
         where made.kind = ? and undone.id is null and coupon.id is null limit ?",
    )
    .bind(CouponStatus::Used.code())
    .bind(REDEEM)
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_ids("look for redemptions of unused coupons", rows)
}

/// Returns rollbacks that undo no redemption, or differ from the one that they undo.
pub async fn odd_rollbacks(
    connection: &mut MySqlConnection,
) -> Result<Vec<RedemptionId>, StoreError> {
    let rows = sqlx::query(
        "select undone.id from redemption undone left join redemption made on made.id = undone.undoes \
         and made.kind = ? and made.coupon_id = undone.coupon_id and made.order_ref = undone.order_ref \
         and made.merchant_id = undone.merchant_id and made.template_id = undone.template_id \
         and made.user_id = undone.user_id and made.amount <=> undone.amount \
         and made.discount <=> undone.discount and made.currency <=> undone.currency \
         where undone.kind = ? and made.id is null limit ?",
    )
    .bind(REDEEM)
    .bind(ROLLBACK)
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_ids("look for rollbacks of nothing", rows)
}

/// Returns orders by name whose discounts are negative or exceed the amount, or whose redemptions state another amount,
/// currency, user or time than the order itself.
pub async fn odd_sums(connection: &mut MySqlConnection) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query(
        "select made.order_ref from redemption made left join redemption_order named \
         on named.merchant_id = made.merchant_id and named.order_ref = made.order_ref \
         where made.kind = ? and made.discount is not null \
         group by made.merchant_id, made.order_ref \
         having min(made.discount) < 0 or sum(made.discount) > max(made.amount) \
         or min(made.amount <=> named.amount) = 0 or min(made.currency <=> named.currency) = 0 \
         or min(made.user_id <=> named.user_id) = 0 or min(made.created_at <=> named.redeemed_at) = 0 limit ?",
    )
    .bind(REDEEM)
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for orders that do not add up", rows, |row| {
        let name: Vec<u8> = row.try_get(0)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    })
}

/// Counts all redemptions, standing or not.
pub async fn count_redemptions(connection: &mut MySqlConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar("select count(*) from redemption where kind = ?")
        .bind(REDEEM)
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the redemptions"))
}

fn read_ids(
    operation: &'static str,
    rows: Result<Vec<sqlx::mysql::MySqlRow>, sqlx::Error>,
) -> Result<Vec<RedemptionId>, StoreError> {
    read_all(operation, rows, |row| Ok(RedemptionId(row.try_get(0)?)))
}
