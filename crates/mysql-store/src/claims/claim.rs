//! `claim`: the permanent idempotency guard, and the fence.

use chrono::{DateTime, Utc};
use coupon::{
    ClaimId, ClaimRow, ClaimState, CouponId, LandedClaim, LandedCoupon, PayloadHash, RequestId,
    TemplateId, UserId, limit,
};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{StoreError, datetime::datetime, templates::template::code_of};

/// How far the ids of a claim's coupons may be below its own id, as a difference of ids: ten seconds, for a clock that
/// is behind the one that assigned the claim's id. Coupon ids are assigned at the landing, usually some milliseconds
/// after the claim's. Without a limit per user, a coupon's id is also its number, so the user's older coupons need not
/// be read. If too few are found, all are read.
const LANDED_BEFORE: i64 = 10_000 << 22;

/// Returns the claim that landed under a client's key, with its coupons.
///
/// # Errors
/// A statement fails.
pub async fn landed_under_key(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    request: &RequestId,
) -> Result<Option<LandedClaim>, StoreError> {
    let row = sqlx::query(
        "select * from claim where template_id = ? and user_id = ? and request_id = ? and state = ?",
    )
    .bind(template.0)
    .bind(user.0)
    .bind(request.as_str().as_bytes())
    .bind(ClaimState::Landed.code())
    .fetch_optional(&mut *connection)
    .await
    .map_err(StoreError::query("read the claim"))?;
    with_coupons(connection, row).await
}

/// Returns the state of the claim row with an admission's id.
///
/// # Errors
/// The statement fails.
pub async fn state_of(
    connection: &mut MySqlConnection,
    id: ClaimId,
) -> Result<Option<ClaimState>, StoreError> {
    let row = sqlx::query("select state from claim where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read the claim"))?;
    row.map(|row| claim_state(&row)).transpose()
}

/// Result of fencing an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// The fence exists, from now or earlier: the admission can never land.
    Stands,
    /// The admission had landed.
    Landed,
}

/// Makes a later landing of an admission impossible, or finds that it has landed.
///
/// One row, autocommit. UNIQUE(id) makes it wait for an open insert of the same admission.
///
/// # Errors
/// A statement fails. After a conflict (1205, 1213) the caller tries again.
pub async fn fence(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    id: ClaimId,
    now: DateTime<Utc>,
) -> Result<Fence, StoreError> {
    let inserted = sqlx::query(
        "insert into claim (template_id, user_id, request_id, id, quantity, state, payload_hash, \
         valid_from, valid_until, created_at) values (?, ?, ?, ?, 0, ?, repeat(x'00', 16), ?, ?, ?)",
    )
    .bind(template.0)
    .bind(user.0)
    .bind(RequestId::fence(id).as_str().as_bytes())
    .bind(id.0)
    .bind(ClaimState::Void.code())
    .bind(datetime(now))
    .bind(datetime(now))
    .bind(datetime(now))
    .execute(&mut *connection)
    .await
    .map_err(StoreError::query("place a fence"));
    match inserted {
        Ok(_) => Ok(Fence::Stands),
        Err(error) if error.duplicate_key().is_some() => match state_of(connection, id).await? {
            Some(ClaimState::Landed) => Ok(Fence::Landed),
            Some(ClaimState::Void | ClaimState::Rejected) => Ok(Fence::Stands),
            // Claims are never deleted, so a connection that does not see the row leads to another server than the
            // insert.
            None => Err(StoreError::Settings(
                "the row of a claim's id that is taken cannot be read: DATABASE_URL must lead to one \
                 server, for reads and writes"
                    .to_owned(),
            )),
        },
        Err(error) => Err(error),
    }
}

pub(crate) fn claim_state(row: &MySqlRow) -> Result<ClaimState, StoreError> {
    ClaimState::from_code(code_of(row, "state")?)
        .map_err(|error| StoreError::unreadable(error.to_string()))
}

pub(crate) fn row_of(row: &MySqlRow) -> Result<ClaimRow, StoreError> {
    let id = row.try_get("id").map_err(StoreError::query("read a claim's row"))?;
    Ok(ClaimRow { id: ClaimId(id), state: claim_state(row)? })
}

fn payload_hash(bytes: &[u8]) -> Result<PayloadHash, StoreError> {
    bytes.try_into().map(PayloadHash).map_err(|_| StoreError::unreadable("claim.payload_hash"))
}

/// Reads a claim with its coupons. They are found by (template, user); a separate index would cost every landing.
pub(crate) async fn with_coupons(
    connection: &mut MySqlConnection,
    row: Option<MySqlRow>,
) -> Result<Option<LandedClaim>, StoreError> {
    let Some(row) = row else { return Ok(None) };
    let read = || -> Result<_, sqlx::Error> {
        Ok((
            LandedClaim {
                id: ClaimId(row.try_get("id")?),
                template_id: TemplateId(row.try_get("template_id")?),
                user_id: UserId(row.try_get("user_id")?),
                payload_hash: PayloadHash([0; 16]),
                claimed_at: row.try_get("created_at")?,
                valid_from: row.try_get("valid_from")?,
                valid_until: row.try_get("valid_until")?,
                coupons: Vec::new(),
            },
            row.try_get::<Vec<u8>, _>("payload_hash")?,
        ))
    };
    let (mut claim, hash) = read().map_err(StoreError::query("read a claim's row"))?;
    claim.payload_hash = payload_hash(&hash)?;
    let quantity: i32 =
        row.try_get("quantity").map_err(StoreError::query("read a claim's quantity"))?;
    claim.coupons = coupons(connection, &claim, quantity, claim.id.0 - LANDED_BEFORE).await?;
    if claim.coupons.len() < usize::try_from(quantity).unwrap_or(0) {
        claim.coupons = coupons(connection, &claim, quantity, 0).await?;
    }
    Ok(Some(claim))
}

/// Reads a claim's coupons among those whose number is within a limit or, as an id, at least `from`. Stops at the last
/// of them.
async fn coupons(
    connection: &mut MySqlConnection,
    claim: &LandedClaim,
    quantity: i32,
    from: i64,
) -> Result<Vec<LandedCoupon>, StoreError> {
    let rows = sqlx::query(
        "select id, claim_no from user_coupon force index (uq_number) \
         where template_id = ? and user_id = ? and (claim_no <= ? or claim_no >= ?) and claim_id = ? \
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
    rows.iter()
        .map(|row| Ok(LandedCoupon { id: CouponId(row.try_get(0)?), claim_no: row.try_get(1)? }))
        .collect::<Result<_, sqlx::Error>>()
        .map_err(StoreError::query("read the claim's coupons"))
}
