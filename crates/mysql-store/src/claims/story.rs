//! A claim's story in MySQL: its admission, as its row records it, and its coupons.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, TemplateId};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, coupons::user_coupon::UserCoupon, datetime::NullableTime, rows};

/// A claim's admission, as its row records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// Number of coupons that were asked for; 0 for a fence.
    pub quantity: u32,
    /// When the gate admitted it, if the row says so.
    pub admitted_at: Option<DateTime<Utc>>,
    /// Stock left at the gate after this admission, if the row says so.
    pub left_after: Option<i64>,
}

/// Returns a claim's admission as its row records it, or `None` if it has no row in this template.
pub async fn admitted(
    connection: &mut MySqlConnection,
    id: ClaimId,
    template: TemplateId,
) -> Result<Option<Admitted>, StoreError> {
    let row: Option<(i32, NullableTime, Option<i64>)> = sqlx::query_as(
        "select quantity, admitted_at, left_after from claim where id = ? and template_id = ?",
    )
    .bind(id.0)
    .bind(template.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read the admission of a claim"))?;
    Ok(row.map(|(quantity, admitted_at, left_after)| Admitted {
        quantity: quantity.unsigned_abs(),
        admitted_at: admitted_at.into(),
        left_after,
    }))
}

/// Returns the current rows of these coupons, ordered by id.
pub async fn coupons(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
) -> Result<Vec<UserCoupon>, StoreError> {
    let mut found: Vec<UserCoupon> = Vec::with_capacity(ids.len());
    for run in rows::runs(ids) {
        let sql = rows::repeat("select * from user_coupon where id in (", "?", ",", run.len(), ")");
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        for id in run {
            query = query.bind(id.0);
        }
        let coupons: Vec<UserCoupon> = query
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read a claim's coupons"))?;
        found.extend(coupons);
    }
    found.sort_unstable_by_key(|coupon| coupon.id);
    Ok(found)
}
