//! `late_payment`: payments of held coupons that were refused for good, until the shop says that it has refunded them.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, MerchantId, TemplateId, UnknownCode, UserId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, Row as _};

use crate::{
    StoreError,
    code::Code,
    coupons::confirmation::{Confirmation, Payment},
    datetime::{NullableTime, datetime},
    listed::{Listed, listed},
};

/// Why a payment was refused for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The hold of a coupon had lapsed.
    HoldLapsed,
    /// Another payment had confirmed a coupon.
    AlreadyConfirmed,
    /// A coupon was cancelled by its user or the shop.
    CouponCancelled,
}

impl Refusal {
    fn code(self) -> u8 {
        match self {
            Self::HoldLapsed => 0,
            Self::AlreadyConfirmed => 1,
            Self::CouponCancelled => 2,
        }
    }

    fn from_code(code: u8) -> Result<Self, UnknownCode> {
        match code {
            0 => Ok(Self::HoldLapsed),
            1 => Ok(Self::AlreadyConfirmed),
            2 => Ok(Self::CouponCancelled),
            _ => Err(UnknownCode { what: "refusal of a payment", code }),
        }
    }
}

impl TryFrom<Code> for Refusal {
    type Error = UnknownCode;

    fn try_from(code: Code) -> Result<Self, UnknownCode> {
        code.read(Self::from_code)
    }
}

/// A payment that is refused for good.
#[derive(Debug, Clone, Copy)]
pub struct Late<'a> {
    payment: Payment<'a>,
    user: UserId,
    coupon: CouponId,
    refusal: Refusal,
    lapsed_at: Option<DateTime<Utc>>,
}

impl<'a> Late<'a> {
    /// Returns the payment if its confirmation ended so that every later try ends so too. `user` owns the claim.
    pub fn of(payment: Payment<'a>, user: UserId, ended: &Confirmation) -> Option<Self> {
        let late =
            |coupon, refusal, lapsed_at| Some(Self { payment, user, coupon, refusal, lapsed_at });
        match *ended {
            Confirmation::Lapsed { coupon, lapsed_at } => {
                late(coupon, Refusal::HoldLapsed, Some(lapsed_at))
            }
            Confirmation::NotHeld { coupon, status: CouponStatus::Cancelled } => {
                late(coupon, Refusal::CouponCancelled, None)
            }
            Confirmation::NotHeld { coupon, .. } => late(coupon, Refusal::AlreadyConfirmed, None),
            Confirmation::Confirmed(_)
            | Confirmation::Replayed { .. }
            | Confirmation::ReferenceTaken
            | Confirmation::Ended { .. }
            | Confirmation::Unsure
            | Confirmation::NotFound => None,
        }
    }
}

/// Records a late payment. One that is recorded already stays as it is.
pub async fn record(connection: &mut MySqlConnection, late: &Late<'_>) -> Result<(), StoreError> {
    let Late { payment, user, coupon, refusal, lapsed_at } = *late;
    let recorded = sqlx::query(
        "insert into late_payment (merchant_id, claim_id, payment_ref, template_id, user_id, coupon_id, \
         refusal, lapsed_at, actor, refused_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(payment.merchant.0)
    .bind(payment.claim.0)
    .bind(payment.payment_ref)
    .bind(payment.template.0)
    .bind(user.0)
    .bind(coupon.0)
    .bind(refusal.code())
    .bind(lapsed_at.map(datetime))
    .bind(payment.actor)
    .bind(datetime(payment.now))
    .execute(connection)
    .await
    .map_err(StoreError::query("record a late payment"));
    match recorded {
        Ok(_) => Ok(()),
        Err(error) if error.duplicate_key().is_some() => Ok(()),
        Err(error) => Err(error),
    }
}

/// A late payment's row in MySQL.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LatePayment {
    #[sqlx(try_from = "i64")]
    pub claim_id: ClaimId,
    pub payment_ref: String,
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    #[sqlx(try_from = "i64")]
    pub user_id: UserId,
    /// The coupon that it was refused for.
    #[sqlx(try_from = "i64")]
    pub coupon_id: CouponId,
    #[sqlx(try_from = "Code")]
    pub refusal: Refusal,
    /// When the hold had lapsed, if that was the reason.
    #[sqlx(try_from = "NullableTime")]
    pub lapsed_at: Option<DateTime<Utc>>,
    /// Who sent it: `key:<id>`, `platform`, or [`TOPIC`](crate::confirmation::TOPIC).
    pub actor: String,
    /// When it was refused first.
    pub refused_at: DateTime<Utc>,
    /// When the shop said that it had refunded it.
    #[sqlx(try_from = "NullableTime")]
    pub refunded_at: Option<DateTime<Utc>>,
    /// Who said so.
    pub refunded_by: Option<String>,
    /// The claim of which the same reference has confirmed other coupons since.
    pub confirmed_claim: Option<i64>,
}

/// A position in a list: behind this payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    pub claim: ClaimId,
    pub payment_ref: String,
}

impl Position {
    /// The position of a payment.
    pub fn of(late: &LatePayment) -> Self {
        Self { claim: late.claim_id, payment_ref: late.payment_ref.clone() }
    }
}

/// Which late payments a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub merchant: MerchantId,
    /// Only those for coupons of this template.
    pub template: Option<TemplateId>,
    /// Those that were refunded, or else those that were not.
    pub refunded: bool,
}

/// Rows of [`LatePayment`].
const ROWS: &str = "select late.claim_id, late.payment_ref, late.template_id, late.user_id, late.coupon_id, late.refusal, \
     late.lapsed_at, late.actor, late.refused_at, late.refunded_at, late.refunded_by, \
     (select payment.claim_id from coupon_payment payment where payment.merchant_id = late.merchant_id \
     and payment.payment_ref = late.payment_ref) as confirmed_claim from late_payment late";

/// Returns the next late payments behind a position, at most `limit`, those of the newest claims first. Names those that
/// cannot be read.
pub async fn page(
    connection: &mut MySqlConnection,
    wanted: Wanted,
    behind: Option<&Position>,
    limit: u32,
) -> Result<Vec<Listed<LatePayment, Position>>, StoreError> {
    let (index, of_template) = match wanted.template {
        Some(_) => ("ix_template", "and late.template_id = ? "),
        None => ("ix_merchant", ""),
    };
    let sql = format!(
        "{ROWS} force index ({index}) where late.merchant_id = ? {of_template}and late.refunded = ? \
         and (late.claim_id < ? or (late.claim_id = ? and late.payment_ref < ?)) \
         order by late.claim_id desc, late.payment_ref desc limit ?"
    );
    let claim = behind.map_or(i64::MAX, |behind| behind.claim.0);
    let payment_ref = behind.map_or("", |behind| behind.payment_ref.as_str());
    let query = sqlx::query(AssertSqlSafe(sql)).bind(wanted.merchant.0);
    let query = wanted.template.into_iter().fold(query, |query, id| query.bind(id.0));
    query
        .bind(wanted.refunded)
        .bind(claim)
        .bind(claim)
        .bind(payment_ref)
        .bind(limit)
        .fetch_all(connection)
        .await
        .and_then(|rows| {
            listed(&rows, LatePayment::from_row, |row| {
                let claim = ClaimId(row.try_get("claim_id")?);
                Ok(Position { claim, payment_ref: row.try_get("payment_ref")? })
            })
        })
        .map_err(StoreError::query("list late payments"))
}

/// Returns a merchant's late payment.
pub async fn find(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    claim: ClaimId,
    payment_ref: &str,
) -> Result<Option<LatePayment>, StoreError> {
    let sql =
        format!("{ROWS} where late.merchant_id = ? and late.claim_id = ? and late.payment_ref = ?");
    sqlx::query_as(AssertSqlSafe(sql))
        .bind(merchant.0)
        .bind(claim.0)
        .bind(payment_ref)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read a late payment"))
}

/// Marks a merchant's late payment as refunded. Returns whether that changed anything; one that is marked already stays as it
/// is.
pub async fn mark_refunded(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    claim: ClaimId,
    payment_ref: &str,
    actor: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let marked = sqlx::query(
        "update late_payment set refunded = 1, refunded_at = ?, refunded_by = ? \
         where merchant_id = ? and claim_id = ? and payment_ref = ? and refunded = 0",
    )
    .bind(datetime(now))
    .bind(actor)
    .bind(merchant.0)
    .bind(claim.0)
    .bind(payment_ref)
    .execute(transaction)
    .await
    .map_err(StoreError::query("mark a late payment"))?;
    Ok(marked.rows_affected() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_refused_for_good_is_late() {
        let coupon = CouponId(7);
        let at = DateTime::UNIX_EPOCH;
        let payment = Payment {
            merchant: MerchantId(1),
            payment_ref: "p",
            claim: ClaimId(2),
            template: TemplateId(3),
            coupons: &[coupon],
            actor: "platform",
            now: at,
        };
        let of = |ended: &Confirmation| Late::of(payment, UserId(4), ended).map(|it| it.refusal);
        let not_held = |status| Confirmation::NotHeld { coupon, status };
        let lapsed = Confirmation::Lapsed { coupon, lapsed_at: at };
        assert_eq!(of(&lapsed), Some(Refusal::HoldLapsed));
        assert_eq!(of(&not_held(CouponStatus::Cancelled)), Some(Refusal::CouponCancelled));
        for status in [CouponStatus::Unused, CouponStatus::Used, CouponStatus::Expired] {
            assert_eq!(of(&not_held(status)), Some(Refusal::AlreadyConfirmed));
        }
        for other in [
            Confirmation::Confirmed(Vec::new()),
            Confirmation::ReferenceTaken,
            Confirmation::Ended { valid_until: at },
            Confirmation::Unsure,
            Confirmation::NotFound,
        ] {
            assert_eq!(of(&other), None, "{other:?}");
        }
        for refusal in [Refusal::HoldLapsed, Refusal::AlreadyConfirmed, Refusal::CouponCancelled] {
            assert_eq!(Refusal::from_code(refusal.code()), Ok(refusal));
        }
        assert!(Refusal::from_code(3).is_err());
    }
}
