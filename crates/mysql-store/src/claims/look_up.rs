//! Lookups for operators: a user's coupons of one merchant, and a claim by its id alone.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, ClaimState, CouponId, LandedClaim, MerchantId, TemplateId, UserId};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    StoreError,
    claims::claim,
    coupons::user_coupon::{self, UserCoupon},
};

/// Returns a page of a user's coupons of one merchant, in any status: ids below `before`, at most `limit`, the newest
/// first.
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
    // A user has few rows, the table has many. Without the hint, the order could lead to a scan of the whole table by
    // its primary key.
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

/// Final outcome of an admission according to MySQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimFate {
    /// The user has the coupons.
    Landed(LandedClaim),
    /// The admission has a fence, or a rejection: it can never land.
    GivenUp {
        /// Id of the claim.
        id: ClaimId,
        /// Template of the claim.
        template_id: TemplateId,
        /// The user that claimed.
        user_id: UserId,
        /// When the row was written.
        at: DateTime<Utc>,
    },
}

impl ClaimFate {
    pub fn template_id(&self) -> TemplateId {
        match self {
            Self::Landed(claim) => claim.template_id,
            Self::GivenUp { template_id, .. } => *template_id,
        }
    }
}

/// Returns the outcome of a claim by its id, or `None` if it does not exist or is not decided yet. The caller checks
/// who owns the template.
///
/// # Errors
/// A statement fails.
pub async fn claim_fate(
    connection: &mut MySqlConnection,
    id: ClaimId,
) -> Result<Option<ClaimFate>, StoreError> {
    let row = sqlx::query("select * from claim where id = ?")
        .bind(id.0)
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::query("look up a claim"))?;
    let Some(row) = row else { return Ok(None) };
    match claim::claim_state(&row)? {
        ClaimState::Void | ClaimState::Rejected => {
            given_up(&row).map(Some).map_err(StoreError::query("read a fence"))
        }
        ClaimState::Landed => {
            Ok(claim::with_coupons(connection, Some(row)).await?.map(ClaimFate::Landed))
        }
    }
}

fn given_up(row: &MySqlRow) -> Result<ClaimFate, sqlx::Error> {
    Ok(ClaimFate::GivenUp {
        id: ClaimId(row.try_get("id")?),
        template_id: TemplateId(row.try_get("template_id")?),
        user_id: UserId(row.try_get("user_id")?),
        at: row.try_get("created_at")?,
    })
}
