//! A template's movements, claims and coupons, in chunks. Each chunk begins behind a position in an order that never
//! changes, so a reader gets each row that existed at its start once. A coupon that is returned meanwhile moves behind
//! its user's others, so it may be read twice.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, ClaimState, CouponId, CouponStatus, TemplateId, UserId};
use sqlx::{FromRow, MySqlConnection, Row as _, mysql::MySqlRow};

use crate::{
    StoreError,
    code::Code,
    datetime::NullableTime,
    listed::{Listed, listed},
    templates::movement::Kind,
};

/// A movement of a template's stock.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct MovementLine {
    /// 1 for the first; no gaps.
    pub seq: i64,
    #[sqlx(try_from = "Code")]
    pub kind: Kind,
    /// Change of the total.
    pub delta: i64,
    /// Change of the stock.
    pub delta_stock: i64,
    /// In the operator's words.
    pub reason: String,
    pub actor: String,
    pub created_at: DateTime<Utc>,
    /// The total after it; `None` for movements from before totals were recorded.
    pub total_after: Option<i64>,
    /// The stock after it; `None` likewise.
    pub stock_after: Option<i64>,
}

/// A claim's row, a fence included.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ClaimLine {
    #[sqlx(try_from = "i64")]
    pub id: ClaimId,
    #[sqlx(try_from = "i64")]
    pub user_id: UserId,
    /// The key of the request, in bytes.
    pub request_id: Vec<u8>,
    /// Number of coupons, requested ones for a rejected claim; 0 for a fence.
    pub quantity: i32,
    #[sqlx(try_from = "Code")]
    pub state: ClaimState,
    pub valid_from: DateTime<Utc>,
    /// Exclusive.
    pub valid_until: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
}

/// A coupon of a template.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CouponLine {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    #[sqlx(try_from = "i64")]
    pub user_id: UserId,
    /// The user's number for it; the coupon's own id if the template has no limit, or if it was returned
    /// or is a replacement.
    pub claim_no: i64,
    /// The number that it had before its return. `None`: it was not returned.
    pub issued_no: Option<i64>,
    #[sqlx(try_from = "i64")]
    pub claim_id: ClaimId,
    /// As stored; [`CouponStatus::at`] returns the current status.
    #[sqlx(try_from = "Code")]
    pub status: CouponStatus,
    pub claimed_at: DateTime<Utc>,
    pub valid_from: DateTime<Utc>,
    /// Exclusive.
    pub valid_until: DateTime<Utc>,
    #[sqlx(try_from = "NullableTime")]
    pub used_at: Option<DateTime<Utc>>,
    /// The order it was used for; for a coupon that is not used, the last order that gave it back.
    pub order_ref: Option<String>,
}

impl CouponLine {
    /// The number that it was issued with.
    pub fn number(&self) -> i64 {
        self.issued_no.unwrap_or(self.claim_no)
    }
}

/// A position among the claims of a template: behind this user's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BehindClaim {
    pub user: UserId,
    pub request_id: Vec<u8>,
}

/// A position among the coupons of a template: behind this number of this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BehindCoupon {
    pub user: UserId,
    pub number: i64,
}

/// A claim's row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedClaim {
    pub id: i64,
    pub behind: BehindClaim,
}

/// A coupon's row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedCoupon {
    pub id: i64,
    pub behind: BehindCoupon,
}

/// Returns the movements after `seq`, at most `limit`, in order. Of one that cannot be read: its number.
pub async fn movements(
    connection: &mut MySqlConnection,
    template: TemplateId,
    seq: i64,
    limit: u32,
) -> Result<Vec<Listed<MovementLine, i64>>, StoreError> {
    let rows = sqlx::query(
        "select seq, kind, delta, coalesce(delta_stock, delta) as delta_stock, reason, actor, \
         created_at, total_after, stock_after from stock_movement \
         where template_id = ? and seq > ? order by seq limit ?",
    )
    .bind(template.0)
    .bind(seq)
    .bind(limit)
    .fetch_all(connection)
    .await;
    rows.and_then(|rows| listed(&rows, MovementLine::from_row, |row| row.try_get("seq")))
        .map_err(StoreError::query("read a chunk of stock movements"))
}

/// Returns the next claims, at most `limit`, by user and request: of all users or of one.
pub async fn claims(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: Option<UserId>,
    behind: Option<&BehindClaim>,
    limit: u32,
) -> Result<Vec<Listed<ClaimLine, DamagedClaim>>, StoreError> {
    // No user is below 0, and no request is empty.
    let (after, request) = behind.map_or((-1, &[][..]), |at| (at.user.0, &at.request_id[..]));
    let query = match user {
        Some(user) => sqlx::query(
            "select id, user_id, request_id, quantity, state, valid_from, valid_until, created_at \
             from claim force index (primary) where template_id = ? and user_id = ? \
             and request_id > ? order by user_id, request_id limit ?",
        )
        .bind(template.0)
        .bind(user.0)
        .bind(request),
        None => sqlx::query(
            "select id, user_id, request_id, quantity, state, valid_from, valid_until, created_at \
             from claim force index (primary) where template_id = ? \
             and (user_id > ? or (user_id = ? and request_id > ?)) \
             order by user_id, request_id limit ?",
        )
        .bind(template.0)
        .bind(after)
        .bind(after)
        .bind(request),
    };
    let rows = query.bind(limit).fetch_all(connection).await;
    rows.and_then(|rows| listed(&rows, ClaimLine::from_row, DamagedClaim::of))
        .map_err(StoreError::query("read a chunk of claims"))
}

/// Returns the next coupons, at most `limit`, by user and number: of all users or of one.
pub async fn coupons(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: Option<UserId>,
    behind: Option<BehindCoupon>,
    limit: u32,
) -> Result<Vec<Listed<CouponLine, DamagedCoupon>>, StoreError> {
    let (after, number) = behind.map_or((-1, -1), |at| (at.user.0, at.number));
    let query = match user {
        Some(user) => sqlx::query(
            "select id, user_id, claim_no, issued_no, claim_id, status, claimed_at, valid_from, \
             valid_until, used_at, order_ref from user_coupon force index (uq_number) \
             where template_id = ? and user_id = ? and claim_no > ? \
             order by user_id, claim_no limit ?",
        )
        .bind(template.0)
        .bind(user.0)
        .bind(number),
        None => sqlx::query(
            "select id, user_id, claim_no, issued_no, claim_id, status, claimed_at, valid_from, \
             valid_until, used_at, order_ref from user_coupon force index (uq_number) \
             where template_id = ? and (user_id > ? or (user_id = ? and claim_no > ?)) \
             order by user_id, claim_no limit ?",
        )
        .bind(template.0)
        .bind(after)
        .bind(after)
        .bind(number),
    };
    let rows = query.bind(limit).fetch_all(connection).await;
    rows.and_then(|rows| listed(&rows, CouponLine::from_row, DamagedCoupon::of))
        .map_err(StoreError::query("read a chunk of coupons"))
}

impl DamagedClaim {
    fn of(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let user = UserId(row.try_get("user_id")?);
        let behind = BehindClaim { user, request_id: row.try_get("request_id")? };
        Ok(Self { id: row.try_get("id")?, behind })
    }
}

impl DamagedCoupon {
    fn of(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let user = UserId(row.try_get("user_id")?);
        let behind = BehindCoupon { user, number: row.try_get("claim_no")? };
        Ok(Self { id: row.try_get("id")?, behind })
    }
}
