//! Columns that must be what other rows say: of coupons, claims and stock rows.

use coupon::{ClaimId, ClaimState, CouponId, PayloadHash, Template};
use sqlx::{MySqlConnection, Row};

use super::{EXAMPLES, read_all};
use crate::{StoreError, template};

/// A template, and what its stock row says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// The template.
    pub template: Template,
    /// Whether landings are allowed.
    pub open: bool,
    /// The template's version at which its validity last changed.
    pub terms: i64,
    /// The last such version that issued coupons had to follow; 0: none.
    pub followed: i64,
}

/// A coupon whose columns are not those of its claim or template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OddCoupon {
    /// The coupon.
    pub id: CouponId,
    /// It is not its template's merchant's.
    pub merchant: bool,
    /// It was not claimed when its claim was.
    pub claimed_at: bool,
    /// It is not valid as its claim was told, although no change of validity was to be followed.
    pub validity: bool,
}

/// What landed claims of one quantity say they were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// The quantity.
    pub quantity: u32,
    /// The payload's hash; absent: not of its length.
    pub hash: Option<PayloadHash>,
    /// One of these claims.
    pub example: ClaimId,
}

/// Every template with what its stock row says of it.
///
/// # Errors
/// The statement fails.
pub async fn terms(connection: &mut MySqlConnection) -> Result<Vec<Terms>, StoreError> {
    let rows = sqlx::query(
        "select template.*, stock.open, stock.terms, (select coalesce(max(version), 0) \
         from validity_move where template_id = template.id) as followed \
         from coupon_template template join template_stock stock on stock.template_id = template.id",
    )
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the templates"))?;
    let read = |row: &sqlx::mysql::MySqlRow| {
        let columns = || -> Result<_, sqlx::Error> {
            Ok((row.try_get::<i8, _>("open")?, row.try_get("terms")?, row.try_get("followed")?))
        };
        let (open, terms, followed) = columns().map_err(StoreError::query("read a template"))?;
        Ok(Terms { template: template::from_row(row)?, open: open == 1, terms, followed })
    };
    rows.iter().map(read).collect()
}

/// Coupons that are not as their claim and template say.
///
/// # Errors
/// The statement fails.
pub async fn odd_coupons(connection: &mut MySqlConnection) -> Result<Vec<OddCoupon>, StoreError> {
    let rows = sqlx::query(
        "select id, cast(merchant as signed) as merchant, cast(claimed as signed) as claimed, \
         cast(validity as signed) as validity from (select coupon.id, \
         coupon.merchant_id <> template.merchant_id as merchant, \
         coupon.claimed_at <> claim.created_at as claimed, \
         coupon.template_id not in (select template_id from validity_move) and \
         (coupon.valid_from <> claim.valid_from or coupon.valid_until <> claim.valid_until) \
         as validity \
         from user_coupon coupon join claim on claim.id = coupon.claim_id \
         join coupon_template template on template.id = coupon.template_id) looked_at \
         where merchant or claimed or validity limit ?",
    )
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("compare coupons with their claims", rows, |row| {
        let is = |column| row.try_get::<i64, _>(column).map(|value| value != 0);
        Ok(OddCoupon {
            id: CouponId(row.try_get("id")?),
            merchant: is("merchant")?,
            claimed_at: is("claimed")?,
            validity: is("validity")?,
        })
    })
}

/// The payloads of landed claims, each that there is.
///
/// # Errors
/// The statement fails.
pub async fn payloads(connection: &mut MySqlConnection) -> Result<Vec<Payload>, StoreError> {
    let rows = sqlx::query(
        "select quantity, payload_hash, min(id) as example from claim where state = ? \
         group by quantity, payload_hash",
    )
    .bind(ClaimState::Landed.code())
    .fetch_all(connection)
    .await;
    read_all("read the claims' payloads", rows, |row| {
        let hash: Vec<u8> = row.try_get("payload_hash")?;
        Ok(Payload {
            quantity: row.try_get::<i32, _>("quantity")?.unsigned_abs(),
            hash: hash.try_into().ok().map(PayloadHash),
            example: ClaimId(row.try_get("example")?),
        })
    })
}

/// Claims under a key of the other kind: a fence on a client's key, or a claim on a fence's.
///
/// # Errors
/// The statement fails.
pub async fn misplaced_claims(
    connection: &mut MySqlConnection,
) -> Result<Vec<(ClaimId, bool)>, StoreError> {
    let rows = sqlx::query(
        "select id, state from claim where (state = ? and request_id <> cast(concat('~', id) as binary)) \
         or (state <> ? and substring(request_id, 1, 1) = cast('~' as binary)) limit ?",
    )
    .bind(ClaimState::Void.code())
    .bind(ClaimState::Void.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for fences on clients' keys", rows, |row| {
        let is_fence = row.try_get::<i8, _>("state")? == ClaimState::Void.code().cast_signed();
        Ok((ClaimId(row.try_get("id")?), is_fence))
    })
}
