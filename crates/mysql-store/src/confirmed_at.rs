//! When a coupon was confirmed: the start of a relative validity.

use chrono::{DateTime, Utc};
use coupon::CouponId;
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, datetime::NullableTime};

/// SQL for when a row of `user_coupon` was confirmed, or the coupon that it replaces; null if it was never held. The
/// payment is committed with the confirmation, so a reader that sees the coupon unused sees it too.
pub(crate) const CONFIRMED_AT: &str = "coalesce((select payment.confirmed_at from coupon_payment payment \
    where payment.claim_id = user_coupon.claim_id and payment.merchant_id = user_coupon.merchant_id \
    and find_in_set(user_coupon.id, payment.coupons) > 0), (select replaced.usable_since \
    from coupon_replacement replaced where replaced.replacement_id = user_coupon.id))";

/// Returns when a coupon was confirmed, or the one that it replaces.
pub(crate) async fn confirmed_at(
    connection: &mut MySqlConnection,
    coupon: CouponId,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let sql = format!("select {CONFIRMED_AT} from user_coupon where id = ?");
    sqlx::query_scalar::<_, NullableTime>(AssertSqlSafe(sql))
        .bind(coupon.0)
        .fetch_one(connection)
        .await
        .map(Into::into)
        .map_err(StoreError::query("read when a coupon was confirmed"))
}
