//! `claim`: the permanent idempotency guard.

use chrono::{DateTime, Utc};
use coupon::{
    ClaimId, ClaimState, CouponId, LandedClaim, LandedCoupon, PayloadHash, RejectReason, RequestId,
    TemplateId, UserId, limit,
};
use sqlx::{FromRow, MySqlConnection};

use crate::{StoreError, code::Code, datetime::NullableTime};

/// How far the ids of a claim's coupons may be below its own id, as a difference of ids: ten seconds, for a clock that
/// is behind the one that assigned the claim's id. Coupon ids are assigned at the landing, usually some milliseconds
/// after the claim's. Without a limit per user, a coupon's id is also its number, so the user's older coupons need not
/// be read. If too few are found, all are read.
const LANDED_BEFORE: i64 = 10_000 << 22;

/// Returns the claim that landed under a client's key, with its coupons.
pub async fn landed_under_key(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    request: &RequestId,
) -> Result<Option<LandedClaim>, StoreError> {
    let row: Option<ClaimColumns> = sqlx::query_as(
        "select * from claim where template_id = ? and user_id = ? and request_id = ? and state = ?",
    )
    .bind(template.0)
    .bind(user.0)
    .bind(request.as_str().as_bytes())
    .bind(ClaimState::Landed.code())
    .fetch_optional(&mut *connection)
    .await
    .map_err(StoreError::query("read the claim"))?;
    let Some(row) = row else { return Ok(None) };
    with_coupons(connection, row).await.map(Some)
}

/// Returns the state of the claim row with an admission's id.
pub async fn state_of(
    connection: &mut MySqlConnection,
    id: ClaimId,
) -> Result<Option<ClaimState>, StoreError> {
    let code: Option<Code> = sqlx::query_scalar("select state from claim where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read the claim"))?;
    Ok(code.map(ClaimState::try_from).transpose()?)
}

/// Columns of a claim's row.
#[derive(FromRow)]
pub(crate) struct ClaimColumns {
    #[sqlx(try_from = "i64")]
    pub(crate) id: ClaimId,
    #[sqlx(try_from = "i64")]
    pub(crate) template_id: TemplateId,
    #[sqlx(try_from = "i64")]
    pub(crate) user_id: UserId,
    quantity: i32,
    #[sqlx(try_from = "Code")]
    pub(crate) state: ClaimState,
    reason: Option<Code>,
    payload_hash: Vec<u8>,
    valid_from: DateTime<Utc>,
    valid_until: DateTime<Utc>,
    #[sqlx(try_from = "NullableTime")]
    held_until: Option<DateTime<Utc>>,
    pub(crate) created_at: DateTime<Utc>,
}

impl ClaimColumns {
    pub(crate) fn payload_hash(&self) -> Result<PayloadHash, StoreError> {
        let hash = self.payload_hash.as_slice().try_into().map(PayloadHash);
        hash.map_err(|_| StoreError::unreadable("claim.payload_hash"))
    }

    /// Why the claim was rejected.
    pub(crate) fn reason(&self) -> Result<RejectReason, StoreError> {
        let code = self.reason.ok_or_else(|| StoreError::unreadable("claim.reason"))?;
        Ok(RejectReason::try_from(code)?)
    }
}

/// Reads the coupons of a claim. They are found by (template, user); a separate index would cost every landing.
pub(crate) async fn with_coupons(
    connection: &mut MySqlConnection,
    row: ClaimColumns,
) -> Result<LandedClaim, StoreError> {
    let mut claim = LandedClaim {
        id: row.id,
        template_id: row.template_id,
        user_id: row.user_id,
        payload_hash: row.payload_hash()?,
        claimed_at: row.created_at,
        valid_from: row.valid_from,
        valid_until: row.valid_until,
        held_until: row.held_until,
        coupons: Vec::new(),
    };
    claim.coupons = coupons(connection, &claim, row.quantity, claim.id.0 - LANDED_BEFORE).await?;
    if claim.coupons.len() < usize::try_from(row.quantity).unwrap_or(0) {
        claim.coupons = coupons(connection, &claim, row.quantity, 0).await?;
    }
    Ok(claim)
}

/// Reads a claim's coupons, ordered by the numbers they were issued with, among those whose number is within a limit
/// or, as an id, at least `from`. The read follows the index and stops at the last of them, however many coupons the
/// user got later. Replacements bear the claim's id too, but were not in its answer, and are left out.
async fn coupons(
    connection: &mut MySqlConnection,
    claim: &LandedClaim,
    quantity: i32,
    from: i64,
) -> Result<Vec<LandedCoupon>, StoreError> {
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "select id, coalesce(issued_no, claim_no) from user_coupon force index (uq_number) \
         where template_id = ? and user_id = ? and (claim_no <= ? or claim_no >= ?) and claim_id = ? \
         and not exists (select 1 from coupon_replacement where replacement_id = user_coupon.id) \
         order by claim_no limit ?",
    )
    .bind(claim.template_id.0)
    .bind(claim.user_id.0)
    .bind(limit::PER_USER_MAX)
    .bind(from)
    .bind(claim.id.0)
    .bind(quantity)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the claim's coupons"))?;
    let coupon = |(id, claim_no)| LandedCoupon { id: CouponId(id), claim_no };
    let mut coupons: Vec<LandedCoupon> = rows.into_iter().map(coupon).collect();
    coupons.sort_unstable_by_key(|coupon| coupon.claim_no);
    Ok(coupons)
}
