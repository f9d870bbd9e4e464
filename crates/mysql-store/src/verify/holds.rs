//! Finds holds that did not end once in an allowed way, and payments that did not confirm what they say.
//!
//! Coupons come first in every join: they have no index by claim, so from any other table each row would read all of them.

use coupon::{ClaimId, ClaimState, CouponId, CouponStatus, TemplateId, UserId};
use sqlx::{AssertSqlSafe, MySqlConnection, QueryBuilder, Row};

use super::{EXAMPLES, Span, ends::period, read_all};
use crate::StoreError;

/// Statuses of a coupon that was confirmed, if it was held. A cancelled one was confirmed if it changed twice.
const IS_CONFIRMED: &str =
    "(coupon.status in (0, 1, 2) or (coupon.status = 3 and coupon.version > 2))";

/// A coupon's payments.
const PAYMENTS: &str = "(select count(*) from coupon_payment payment force index (ix_claim) where payment.claim_id = coupon.claim_id \
     and payment.merchant_id = coupon.merchant_id and find_in_set(coupon.id, payment.coupons) > 0)";

/// Returns returned coupons that are not lapsed or cancelled, do not have their own ids as numbers, or had a number
/// that was not allowed; and lapsed coupons that were not returned.
pub async fn odd_returns(connection: &mut MySqlConnection) -> Result<Vec<CouponId>, StoreError> {
    let rows = sqlx::query(
        "select coupon.id from user_coupon coupon \
         join coupon_template template on template.id = coupon.template_id \
         where (coupon.status = ? and coupon.issued_no is null) or (coupon.issued_no is not null and \
          (coupon.status not in (?, ?) or coupon.claim_no <> coupon.id or not \
           (coupon.issued_no between 1 and template.per_user_limit or (coupon.issued_no = coupon.id \
            and (template.per_user_limit = 0 or coupon.id in \
             (select replacement_id from coupon_replacement)))))) limit ?",
    )
    .bind(CouponStatus::Lapsed.code())
    .bind(CouponStatus::Cancelled.code())
    .bind(CouponStatus::Lapsed.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for odd returns", rows, |row| Ok(CouponId(row.try_get(0)?)))
}

/// Returns coupons that are or were held although their claim was not, and coupons of held claims that did not end in
/// an allowed way: held, lapsed or cancelled ones whose deadline is not their claim's, or that ended on the wrong side
/// of it; confirmed ones without exactly one payment; others with one. Replacements were never held and are not
/// checked.
pub async fn odd_holds(connection: &mut MySqlConnection) -> Result<Vec<CouponId>, StoreError> {
    let sql = format!(
        "select coupon.id from user_coupon coupon straight_join claim on claim.id = coupon.claim_id \
         where coupon.id not in (select replacement_id from coupon_replacement) and \
         if(claim.held_until is null, coupon.status in (4, 5), not (case \
          when {IS_CONFIRMED} then {PAYMENTS} = 1 \
          when {PAYMENTS} > 0 then false \
          when coupon.valid_until <> claim.held_until then false \
          when coupon.status = 4 then coupon.version = 1 \
          when coupon.status = 5 then coupon.version = 2 and coupon.changed_at >= claim.held_until \
          else coupon.issued_no is not null and coupon.changed_at < claim.held_until end)) limit ?"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(EXAMPLES).fetch_all(connection).await;
    read_all("look for odd holds", rows, |row| Ok(CouponId(row.try_get(0)?)))
}

/// Returns confirmed coupons whose validity is neither their claim's, counted from the confirmation if it is relative,
/// nor the template's present one. Extended coupons are not checked, nor those of templates that were edited twice or
/// whose issued coupons followed a change of validity.
pub async fn odd_confirmed_validities(
    connection: &mut MySqlConnection,
) -> Result<Vec<CouponId>, StoreError> {
    let period = period!("template.valid_for_ms");
    let sql = format!(
        "select id from (select coupon.id, coupon.valid_from, coupon.valid_until, \
         payment.confirmed_at, claim.valid_from as claim_from, claim.valid_until as claim_until, \
         claim.valid_from = claim.created_at as is_relative, \
         timestampdiff(microsecond, claim.valid_from, claim.valid_until) as lasts, \
         coalesce(template.valid_from, payment.confirmed_at) as now_from, \
         coalesce(template.valid_until, payment.confirmed_at + {period}) as now_until \
         from user_coupon coupon straight_join coupon_payment payment force index (ix_claim) \
         on payment.claim_id = coupon.claim_id and find_in_set(coupon.id, payment.coupons) > 0 \
         straight_join claim on claim.id = coupon.claim_id \
         straight_join coupon_template template on template.id = coupon.template_id \
         where {IS_CONFIRMED} and coupon.template_id not in (select template_id from validity_move) \
         and (select count(*) from audit_entry entry where entry.merchant_id = coupon.merchant_id \
          and entry.target = concat('templates/', coupon.template_id) and entry.action = 'template.edit') < 2 \
         and (select count(*) from audit_entry entry where entry.merchant_id = coupon.merchant_id \
          and entry.target = concat('coupons/', coupon.id) and entry.action = 'coupon.extend') = 0) paid \
         where not ((valid_from = now_from and valid_until = now_until) or \
         (is_relative and valid_from = confirmed_at and \
          valid_until = confirmed_at + interval lasts microsecond) or \
         (not is_relative and valid_from = claim_from and valid_until = claim_until)) limit ?"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(EXAMPLES).fetch_all(connection).await;
    read_all("look for odd validities of confirmed coupons", rows, |row| {
        Ok(CouponId(row.try_get(0)?))
    })
}

/// Returns landed claims whose template has no hold although they have one, or the other way round, or whose hold ends
/// after the validity or not after the claim. The terms of a template's holds never change once it is published.
pub async fn odd_held_claims(connection: &mut MySqlConnection) -> Result<Vec<ClaimId>, StoreError> {
    let rows = sqlx::query(
        "select claim.id from claim join coupon_template template on template.id = claim.template_id \
         where claim.state = ? and ((claim.held_until is null) <> (template.hold_ms = 0) \
          and substring(claim.request_id, 1, 2) <> cast('~g' as binary) \
         or claim.held_until > claim.valid_until or claim.held_until <= claim.created_at) limit ?",
    )
    .bind(ClaimState::Landed.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for odd held claims", rows, |row| Ok(ClaimId(row.try_get(0)?)))
}

/// Returns the references of payments whose coupons are not all of their merchant's claim, or that came after the hold
/// had ended.
pub async fn odd_payments(connection: &mut MySqlConnection) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query(
        "select payment.payment_ref from coupon_payment payment \
         left join claim on claim.id = payment.claim_id and claim.state = ? left join \
         (select payment.merchant_id, payment.payment_ref, count(*) as coupons from user_coupon coupon \
          straight_join coupon_payment payment force index (ix_claim) on payment.claim_id = coupon.claim_id \
          and payment.merchant_id = coupon.merchant_id and find_in_set(coupon.id, payment.coupons) > 0 \
          group by payment.merchant_id, payment.payment_ref) paid \
         on paid.merchant_id = payment.merchant_id and paid.payment_ref = payment.payment_ref \
         where claim.id is null or claim.held_until is null or payment.confirmed_at >= claim.held_until \
         or coalesce(paid.coupons, 0) <> \
          1 + length(payment.coupons) - length(replace(payment.coupons, ',', '')) limit ?",
    )
    .bind(ClaimState::Landed.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for odd payments", rows, |row| row.try_get(0))
}

/// A coupon without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unnumbered {
    pub id: CouponId,
    pub template: TemplateId,
    pub user: UserId,
}

/// Returns coupons of a span that have their own ids as numbers although their template has a limit, they replace none,
/// and were not returned.
pub async fn odd_numbers(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<Unnumbered>, StoreError> {
    let mut query = QueryBuilder::new(
        "select coupon.id, coupon.template_id, coupon.user_id from user_coupon coupon \
         join coupon_template template on template.id = coupon.template_id \
         where coupon.claim_no = coupon.id and template.per_user_limit > 0 \
         and coupon.issued_no is null \
         and coupon.id not in (select replacement_id from coupon_replacement)",
    );
    span.narrow(&mut query, "coupon");
    query.push(" limit ").push_bind(EXAMPLES);
    let rows = query.build().fetch_all(connection).await;
    read_all("look for coupons without a number", rows, |row| {
        Ok(Unnumbered {
            id: CouponId(row.try_get("id")?),
            template: TemplateId(row.try_get("template_id")?),
            user: UserId(row.try_get("user_id")?),
        })
    })
}
