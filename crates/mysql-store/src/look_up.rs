//! What an operator looks up for somebody: a user's coupons of one merchant, a claim by its id alone.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, ClaimState, CouponId, LandedClaim, MerchantId, TemplateId, UserId};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

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

/// What has become of an admission, as MySQL knows it: neither changes any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimFate {
    /// Its user has the coupons.
    Landed(LandedClaim),
    /// Its row says so, a fence as a rule: it can never land.
    GivenUp {
        /// The admission.
        id: ClaimId,
        /// Of what.
        template_id: TemplateId,
        /// Whose.
        user_id: UserId,
        /// When the row was written.
        at: DateTime<Utc>,
    },
}

impl ClaimFate {
    /// Of which template the claim is.
    pub fn template_id(&self) -> TemplateId {
        match self {
            Self::Landed(claim) => claim.template_id,
            Self::GivenUp { template_id, .. } => *template_id,
        }
    }
}

/// What has become of a claim, by its id; whose template it is of is for the caller to ask. Absent: it never
/// was, or nothing is decided yet.
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
