//! Lookups: a user's coupons of one merchant, a claim by its id alone, a key's answer, and rejected users.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use coupon::{
    ClaimId, ClaimState, CouponId, LandedClaim, MerchantId, PayloadHash, RejectReason, RequestId,
    TemplateId, UserId,
};
use sqlx::{AssertSqlSafe, FromRow as _, MySqlConnection, Row as _};

use crate::{
    StoreError,
    claims::claim::{self, ClaimColumns},
    coupons::user_coupon::UserCoupon,
    listed::{Listed, listed},
    rows,
};

/// Returns a page of a user's coupons of one merchant, in any status: ids below `before`, at most `limit`, the newest
/// first. Names those that cannot be read.
pub async fn coupons_of(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    user: UserId,
    before: Option<CouponId>,
    limit: u32,
) -> Result<Vec<Listed<UserCoupon, CouponId>>, StoreError> {
    // The index has the merchant's rows in this order, so a page reads a page. Without the hint, the order could lead to
    // a scan of the whole table by its primary key.
    sqlx::query(
        "select * from user_coupon force index (ix_user_merchant) \
         where user_id = ? and merchant_id = ? and id < ? order by id desc limit ?",
    )
    .bind(user.0)
    .bind(merchant.0)
    .bind(before.map_or(i64::MAX, |id| id.0))
    .bind(limit)
    .fetch_all(connection)
    .await
    .and_then(|rows| listed(&rows, UserCoupon::from_row, |row| row.try_get("id").map(CouponId)))
    .map_err(StoreError::query("look up a user's coupons"))
}

/// Final outcome of an admission according to MySQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimFate {
    /// The user has the coupons.
    Landed(LandedClaim),
    /// The claim was queued and rejected for good, under its key.
    Rejected {
        /// Id of the claim.
        id: ClaimId,
        /// Template of the claim.
        template_id: TemplateId,
        /// The user that claimed.
        user_id: UserId,
        reason: RejectReason,
        /// When the row was written.
        at: DateTime<Utc>,
    },
    /// It was answered with success, and a failover of MySQL lost it. The same key may be sent again.
    Lost {
        id: ClaimId,
        template_id: TemplateId,
        user_id: UserId,
        /// When that was found.
        at: DateTime<Utc>,
    },
    /// The admission has a fence: it can never land.
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
            Self::Rejected { template_id, .. }
            | Self::Lost { template_id, .. }
            | Self::GivenUp { template_id, .. } => *template_id,
        }
    }
}

/// Returns the outcome of a claim by its id, or `None` if it does not exist or is not decided yet. The caller checks
/// who owns the template.
pub async fn claim_fate(
    connection: &mut MySqlConnection,
    id: ClaimId,
) -> Result<Option<ClaimFate>, StoreError> {
    let row: Option<ClaimColumns> = sqlx::query_as("select * from claim where id = ?")
        .bind(id.0)
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::query("look up a claim"))?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(match row.state {
        ClaimState::Void => ClaimFate::GivenUp {
            id: row.id,
            template_id: row.template_id,
            user_id: row.user_id,
            at: row.created_at,
        },
        ClaimState::Rejected => ClaimFate::Rejected {
            id: row.id,
            template_id: row.template_id,
            user_id: row.user_id,
            reason: row.reason()?,
            at: row.created_at,
        },
        ClaimState::Landed => ClaimFate::Landed(claim::with_coupons(connection, row).await?),
    }))
}

/// Returns which of these claims have a row, in any state and of any template: a landing, a rejection or a fence.
pub async fn with_row(
    connection: &mut MySqlConnection,
    ids: &[ClaimId],
) -> Result<HashSet<ClaimId>, StoreError> {
    let mut found = HashSet::new();
    for run in rows::runs(ids) {
        let head = "select id from claim force index (uq_claim_id) where id in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ")");
        let query = sqlx::query_scalar(AssertSqlSafe(sql));
        let query = run.iter().fold(query, |query, id| query.bind(id.0));
        let ids: Vec<i64> = query
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("look for claims"))?;
        found.extend(ids.into_iter().map(ClaimId));
    }
    Ok(found)
}

/// The final answer under a client's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredAnswer {
    /// The user has the coupons.
    Landed(LandedClaim),
    /// The claim was queued and rejected.
    Rejected {
        /// Id of the claim that was rejected.
        id: ClaimId,
        reason: RejectReason,
        payload_hash: PayloadHash,
    },
}

impl StoredAnswer {
    /// Id of the claim that got the answer.
    pub fn id(&self) -> ClaimId {
        match self {
            Self::Landed(claim) => claim.id,
            Self::Rejected { id, .. } => *id,
        }
    }

    /// Hash of its payload. The same key with another hash is a reused key.
    pub fn payload_hash(&self) -> PayloadHash {
        match self {
            Self::Landed(claim) => claim.payload_hash,
            Self::Rejected { payload_hash, .. } => *payload_hash,
        }
    }
}

/// Returns the answer stored under a client's key, or `None` if the key has none yet.
pub async fn by_key(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    request: &RequestId,
) -> Result<Option<StoredAnswer>, StoreError> {
    let row: Option<ClaimColumns> = sqlx::query_as(
        "select * from claim where template_id = ? and user_id = ? and request_id = ?",
    )
    .bind(template.0)
    .bind(user.0)
    .bind(request.as_str().as_bytes())
    .fetch_optional(&mut *connection)
    .await
    .map_err(StoreError::query("read a key's answer"))?;
    let Some(row) = row else { return Ok(None) };
    Ok(match row.state {
        // No client's key is a fence's.
        ClaimState::Void => None,
        ClaimState::Rejected => Some(StoredAnswer::Rejected {
            id: row.id,
            reason: row.reason()?,
            payload_hash: row.payload_hash()?,
        }),
        ClaimState::Landed => {
            Some(StoredAnswer::Landed(claim::with_coupons(connection, row).await?))
        }
    })
}

/// Rows in one page of users: some hundred kilobytes.
const USERS_MAX: u32 = 10_000;

/// Returns some users with a rejected claim of the template after `after`, ordered; empty at the end. After a
/// rebuild their claims are looked up in MySQL first, since their keys have answers that the gate does not know.
pub async fn rejected_users_after(
    connection: &mut MySqlConnection,
    template: TemplateId,
    after: UserId,
) -> Result<Vec<UserId>, StoreError> {
    let users: Vec<i64> = sqlx::query_scalar(
        "select user_id from rejected_user where template_id = ? and user_id > ? \
         order by user_id limit ?",
    )
    .bind(template.0)
    .bind(after.0)
    .bind(USERS_MAX)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the rejected users"))?;
    Ok(users.into_iter().map(UserId).collect())
}

/// Returns some users with a landed or rejected claim of the template after `after`, ordered; empty at the end. Without
/// a limit they hold no numbers that a rebuild could load, but their keys have answers too.
pub async fn answered_users_after(
    connection: &mut MySqlConnection,
    template: TemplateId,
    after: UserId,
) -> Result<Vec<UserId>, StoreError> {
    let users: Vec<i64> = sqlx::query_scalar(
        "select distinct user_id from claim force index (primary) \
         where template_id = ? and user_id > ? and state in (?, ?) order by user_id limit ?",
    )
    .bind(template.0)
    .bind(after.0)
    .bind(ClaimState::Landed.code())
    .bind(ClaimState::Rejected.code())
    .bind(USERS_MAX)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the users with answers"))?;
    Ok(users.into_iter().map(UserId).collect())
}
