//! Checks columns of coupons, claims and stock rows that must agree with other rows.

use coupon::{ClaimId, ClaimState, CouponId, PayloadHash, Template};
use sqlx::{MySqlConnection, Row};

use super::{EXAMPLES, read_all};
use crate::{StoreError, templates::template};

/// A template and parts of its stock row.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub template: Template,
    /// Whether landings are allowed.
    pub open: bool,
    /// The template's version at the last change of its validity.
    pub terms: i64,
    /// The last such version that issued coupons had to follow; 0 if none.
    pub followed: i64,
}

/// A coupon that disagrees with its claim or template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OddCoupon {
    pub id: CouponId,
    /// Its merchant is not its template's.
    pub merchant: bool,
    /// Its time of claim is not its claim's.
    pub claimed_at: bool,
    /// Its validity is not its claim's, although issued coupons never had to follow a change of validity.
    pub validity: bool,
}

/// A payload hash of landed claims with one quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    pub quantity: u32,
    /// `None` if the stored hash has the wrong length.
    pub hash: Option<PayloadHash>,
    /// One of these claims.
    pub example: ClaimId,
}

/// Returns every template with parts of its stock row.
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

/// Returns coupons that disagree with their claim or template.
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

/// Returns the distinct payloads of landed claims.
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

/// Returns claims under a key of the wrong kind: a fence under a client's key, or a claim under a fence's. True marks a
/// fence.
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
