//! Confirmation: held coupons become usable, once per payment. `coupon_payment` is its idempotency guard.
//!
//! A payment confirms all of its coupons or none. Only a coupon's row or MySQL's clock decides that its hold has
//! lapsed, so that a payment refused for it is never accepted later.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, MerchantId, TemplateId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection};

use crate::{
    StoreError, coupons::user_coupon::UserCoupon, datetime::datetime, rows, settings,
    templates::template,
};

/// A payment that confirms coupons of one claim.
#[derive(Debug, Clone, Copy)]
pub struct Payment<'a> {
    pub merchant: MerchantId,
    /// The shop's name for it, unique among the merchant's payments.
    pub payment_ref: &'a str,
    pub claim: ClaimId,
    pub template: TemplateId,
    /// The coupons it confirms, ascending: of this claim, at least one.
    pub coupons: &'a [CouponId],
    /// Who confirms it: `key:<id>`, `platform`, or [`TOPIC`].
    pub actor: &'a str,
    /// The caller's clock.
    pub now: DateTime<Utc>,
}

/// The actor of a payment that came as a message.
pub const TOPIC: &str = "topic";

/// A payment that has confirmed coupons of a claim.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Confirmed {
    pub payment_ref: String,
    /// Ids, ascending, separated by commas.
    pub coupons: String,
    pub confirmed_at: DateTime<Utc>,
    /// `None`: confirmed before actors were recorded.
    pub actor: Option<String>,
}

/// Returns the payments that have confirmed coupons of a claim, the oldest first: at most one for each coupon.
pub async fn of_claim(
    connection: &mut MySqlConnection,
    claim: ClaimId,
) -> Result<Vec<Confirmed>, StoreError> {
    sqlx::query_as(
        "select payment_ref, coupons, confirmed_at, actor from coupon_payment \
         where claim_id = ? order by confirmed_at, payment_ref",
    )
    .bind(claim.0)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the payments of a claim"))
}

/// Result of a confirmation. All but `Confirmed` change nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    /// The coupons can be used now. Commit.
    Confirmed(Vec<UserCoupon>),
    /// An earlier call with the same reference, claim and coupons confirmed them. The coupons as they are now.
    Replayed { confirmed_at: DateTime<Utc>, coupons: Vec<UserCoupon> },
    /// The reference confirmed something else.
    ReferenceTaken,
    /// The hold of this coupon lapsed for good at `lapsed_at`.
    Lapsed { coupon: CouponId, lapsed_at: DateTime<Utc> },
    /// The template's validity ended at this time, so a coupon confirmed now could never be used. Not for good: the shop
    /// can lengthen the validity while the hold runs.
    Ended { valid_until: DateTime<Utc> },
    /// This coupon is not held: cancelled, or confirmed by another payment.
    NotHeld { coupon: CouponId, status: CouponStatus },
    /// Only the caller's clock says that a hold or the validity has ended, so nothing is certain: try again.
    Unsure,
    /// One of the coupons is not of this claim and merchant.
    NotFound,
}

#[derive(FromRow)]
struct StoredPayment {
    #[sqlx(try_from = "i64")]
    claim_id: ClaimId,
    coupons: String,
    confirmed_at: DateTime<Utc>,
}

/// Confirms the payment's coupons in the caller's transaction. Roll back unless it returns `Confirmed`.
///
/// # Errors
/// A statement fails. Roll back then; whether it was confirmed by an earlier call is unknown, and the same call finds out.
pub async fn confirm(
    transaction: &mut MySqlConnection,
    payment: &Payment<'_>,
) -> Result<Confirmation, StoreError> {
    let locked = lock(transaction, payment).await?;
    // After the locks: a call that waited for them sees what their holder stored.
    if let Some(stored) = stored(transaction, payment.merchant, payment.payment_ref).await? {
        let is_same = stored.claim_id == payment.claim && stored.coupons == listed(payment.coupons);
        if !is_same {
            return Ok(Confirmation::ReferenceTaken);
        }
        return Ok(Confirmation::Replayed { confirmed_at: stored.confirmed_at, coupons: locked });
    }
    if locked.len() != payment.coupons.len() {
        return Ok(Confirmation::NotFound);
    }
    // An edit of the validity waits for this lock, and then moves what is confirmed here.
    let Some(template) = template::get_shared(transaction, payment.template).await? else {
        return Ok(Confirmation::NotFound);
    };
    let (valid_from, valid_until) = template.validity.of_claim(payment.now);
    // By a clock that is read after the locks: the wait for them may have been longer than the rest of the hold.
    let server_now = settings::server_time(transaction).await?;
    if let Some(refusal) = refused(&locked, valid_until, payment.now, server_now) {
        return Ok(refusal);
    }
    if !record(transaction, payment).await? {
        return Ok(Confirmation::ReferenceTaken);
    }
    let now = payment.now;
    make_usable(transaction, payment.coupons, now, valid_from, valid_until).await?;
    let usable = |coupon| usable(coupon, now, valid_from, valid_until);
    Ok(Confirmation::Confirmed(locked.into_iter().map(usable).collect()))
}

/// A held coupon as it is once it is confirmed.
pub(super) fn usable(
    coupon: UserCoupon,
    now: DateTime<Utc>,
    valid_from: DateTime<Utc>,
    valid_until: DateTime<Utc>,
) -> UserCoupon {
    UserCoupon {
        status: CouponStatus::Unused,
        version: coupon.version + 1,
        changed_at: now,
        valid_from,
        valid_until,
        ..coupon
    }
}

/// Why the coupons cannot be confirmed, if one cannot. Final reasons come before temporary ones.
fn refused(
    locked: &[UserCoupon],
    valid_until: DateTime<Utc>,
    now: DateTime<Utc>,
    server_now: DateTime<Utc>,
) -> Option<Confirmation> {
    let mut unsure = None;
    for coupon in locked {
        let id = coupon.id;
        let held_until = coupon.valid_until;
        match coupon.status {
            CouponStatus::Held if held_until > now.max(server_now) => {}
            CouponStatus::Held if held_until > server_now => unsure = Some(Confirmation::Unsure),
            CouponStatus::Held | CouponStatus::Lapsed => {
                return Some(Confirmation::Lapsed { coupon: id, lapsed_at: held_until });
            }
            CouponStatus::Unused
            | CouponStatus::Used
            | CouponStatus::Expired
            | CouponStatus::Cancelled => {
                return Some(Confirmation::NotHeld { coupon: id, status: coupon.status });
            }
        }
    }
    if valid_until <= server_now {
        return Some(Confirmation::Ended { valid_until });
    }
    unsure.or_else(|| (valid_until <= now).then_some(Confirmation::Unsure))
}

async fn lock(
    transaction: &mut MySqlConnection,
    payment: &Payment<'_>,
) -> Result<Vec<UserCoupon>, StoreError> {
    let filled = rows::filled(payment.coupons);
    let head = "select * from user_coupon force index (primary) where id in (";
    let tail = ") and claim_id = ? and merchant_id = ? order by id for update";
    let sql = rows::repeat(head, "?", ", ", filled.len(), tail);
    let query = sqlx::query_as(AssertSqlSafe(sql));
    filled
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .bind(payment.claim.0)
        .bind(payment.merchant.0)
        .fetch_all(transaction)
        .await
        .map_err(StoreError::query("lock the coupons of a payment"))
}

async fn stored(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    payment_ref: &str,
) -> Result<Option<StoredPayment>, StoreError> {
    sqlx::query_as(
        "select claim_id, coupons, confirmed_at from coupon_payment \
         where merchant_id = ? and payment_ref = ?",
    )
    .bind(merchant.0)
    .bind(payment_ref)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("look for a payment"))
}

/// Takes the reference. Returns false if another payment took it meanwhile.
async fn record(
    transaction: &mut MySqlConnection,
    payment: &Payment<'_>,
) -> Result<bool, StoreError> {
    let inserted = sqlx::query(
        "insert into coupon_payment \
         (merchant_id, payment_ref, claim_id, coupons, confirmed_at, actor) \
         values (?, ?, ?, ?, ?, ?)",
    )
    .bind(payment.merchant.0)
    .bind(payment.payment_ref)
    .bind(payment.claim.0)
    .bind(listed(payment.coupons))
    .bind(datetime(payment.now))
    .bind(payment.actor)
    .execute(transaction)
    .await
    .map_err(StoreError::query("record a payment"));
    match inserted {
        Ok(_) => Ok(true),
        Err(error) if error.duplicate_key().is_some() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes held coupons usable, and returns how many of them were held.
pub(super) async fn make_usable(
    transaction: &mut MySqlConnection,
    coupons: &[CouponId],
    now: DateTime<Utc>,
    valid_from: DateTime<Utc>,
    valid_until: DateTime<Utc>,
) -> Result<u64, StoreError> {
    if coupons.is_empty() {
        return Ok(0);
    }
    let filled = rows::filled(coupons);
    let head = "update user_coupon force index (primary) set status = ?, version = version + 1, \
                changed_at = ?, valid_from = ?, valid_until = ? where id in (";
    let sql = rows::repeat(head, "?", ", ", filled.len(), ") and status = ?");
    let query = sqlx::query(AssertSqlSafe(sql))
        .bind(CouponStatus::Unused.code())
        .bind(datetime(now))
        .bind(datetime(valid_from))
        .bind(datetime(valid_until));
    let done = filled
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .bind(CouponStatus::Held.code())
        .execute(transaction)
        .await
        .map_err(StoreError::query("confirm coupons"))?;
    Ok(done.rows_affected())
}

pub(super) fn listed(coupons: &[CouponId]) -> String {
    let ids: Vec<String> = coupons.iter().map(ToString::to_string).collect();
    ids.join(",")
}
