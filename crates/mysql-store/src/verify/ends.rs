//! Finds coupons that ended wrongly, or whose validity is wrong.

use chrono::{DateTime, Utc};
use coupon::{CouponStatus, MoveState};
use sqlx::MySqlConnection;

use super::EXAMPLES;
use crate::{
    StoreError,
    coupons::user_coupon::{self, UserCoupon},
    datetime::datetime,
};

/// Returns coupons that expired early or more than once, were used after their deadline, changed more often than their
/// end and their template's changes of validity explain, or are unused although their deadline is at or before
/// `overdue_at`. Orders may use a coupon and give it back any number of times, so changes of a coupon that was ever
/// used are not counted here; the topic shows whether each was allowed.
///
/// # Errors
/// The statement fails.
pub async fn bad_ends(
    connection: &mut MySqlConnection,
    overdue_at: DateTime<Utc>,
) -> Result<Vec<UserCoupon>, StoreError> {
    let rows = sqlx::query(
        "select coupon.* from user_coupon coupon \
         left join (select template_id, count(*) as moves from validity_move group by template_id) \
         followed on followed.template_id = coupon.template_id where \
         (status = ? and (changed_at < coupon.valid_until \
          or (order_ref is null and version not between 2 and 2 + coalesce(moves, 0)))) or \
         (status = ? and (used_at is null or used_at >= coupon.valid_until or version < 2)) or \
         (status = ? and (used_at is not null or coupon.valid_until <= ? \
          or (order_ref is null and version not between 1 and 1 + coalesce(moves, 0)))) limit ?",
    )
    .bind(CouponStatus::Expired.code())
    .bind(CouponStatus::Used.code())
    .bind(CouponStatus::Unused.code())
    .bind(datetime(overdue_at))
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("look for coupons that ended wrongly"))?;
    rows.iter().map(user_coupon::from_row).collect()
}

/// Returns coupons with a wrong validity, of templates whose issued coupons ever had to follow a change: coupons that
/// were not moved and differ from their claim; that were moved and match no change; or that can still be used at `now`
/// and differ from the last change although its move is finished. A coupon that an order gave back keeps the validity
/// under which it was used.
///
/// # Errors
/// The statement fails.
pub async fn bad_validities(
    connection: &mut MySqlConnection,
    now: DateTime<Utc>,
) -> Result<Vec<UserCoupon>, StoreError> {
    let rows = sqlx::query(
        "select coupon.* from user_coupon coupon join claim \
         on claim.id = coupon.claim_id and claim.template_id = coupon.template_id \
         and claim.user_id = coupon.user_id \
         where coupon.template_id in (select template_id from validity_move) and ( \
         (coupon.version - (coupon.status <> ?) = 1 and (coupon.valid_from <> claim.valid_from \
          or coupon.valid_until <> claim.valid_until)) or \
         (coupon.version - (coupon.status <> ?) > 1 and not (coupon.order_ref is not null \
          and coupon.valid_from = claim.valid_from and coupon.valid_until = claim.valid_until) \
          and not exists (select 1 from validity_move told where told.template_id = coupon.template_id \
           and coupon.valid_from = coalesce(told.valid_from, coupon.claimed_at) \
           and coupon.valid_until = coalesce(told.valid_until, \
            coupon.claimed_at + interval told.valid_for_ms * 1000 microsecond))) or \
         (coupon.status = ? and coupon.order_ref is null and coupon.valid_until > ? and exists \
          (select 1 from validity_move told join template_stock stock \
           on stock.template_id = told.template_id and stock.terms = told.version \
           where told.template_id = coupon.template_id and told.state = ? \
           and (coupon.valid_from <> coalesce(told.valid_from, coupon.claimed_at) \
            or coupon.valid_until <> coalesce(told.valid_until, \
             coupon.claimed_at + interval told.valid_for_ms * 1000 microsecond))))) limit ?",
    )
    .bind(CouponStatus::Unused.code())
    .bind(CouponStatus::Unused.code())
    .bind(CouponStatus::Unused.code())
    .bind(datetime(now))
    .bind(MoveState::Finished.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("look for coupons of a wrong validity"))?;
    rows.iter().map(user_coupon::from_row).collect()
}
