//! What an operator looks up for somebody: a user's coupons of one merchant, a claim by its id alone.

use coupon::{ClaimId, ClaimState, CouponId, LandedClaim, MerchantId, UserId};
use sqlx::MySqlConnection;

use crate::{
    StoreError, claim,
    user_coupon::{self, UserCoupon},
};

/// A page of a user's coupons of one merchant, whatever became of them: ids below `before`, at most
/// `limit`, the newest first.
///
/// # Errors
/// The statement fails.
pub async fn coupons_of(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    user: UserId,
    before: Option<CouponId>,
    limit: u32,
) -> Result<Vec<UserCoupon>, StoreError> {
    // One user's rows are few, the table's are not: the order must not lead to a read of the whole table
    // by its primary key.
    let rows = sqlx::query(
        "select * from user_coupon force index (ix_user) \
         where user_id = ? and merchant_id = ? and id < ? order by id desc limit ?",
    )
    .bind(user.0)
    .bind(merchant.0)
    .bind(before.map_or(i64::MAX, |id| id.0))
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("look up a user's coupons"))?;
    rows.iter().map(user_coupon::from_row).collect()
}

/// A claim by its id, if it landed; whose template it is of is for the caller to ask.
///
/// # Errors
/// A statement fails.
pub async fn landed_claim(
    connection: &mut MySqlConnection,
    id: ClaimId,
) -> Result<Option<LandedClaim>, StoreError> {
    let row = sqlx::query("select * from claim where id = ? and state = ?")
        .bind(id.0)
        .bind(ClaimState::Landed.code())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::query("look up a claim"))?;
    claim::with_coupons(connection, row).await
}
