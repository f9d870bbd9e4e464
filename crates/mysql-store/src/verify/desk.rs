//! Finds coupons that were revoked or replaced otherwise than by the support desk.

use coupon::{CouponId, CouponStatus};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::{
    EXAMPLES,
    ends::{extended_to, json_field},
    read_all,
};
use crate::{StoreError, confirmed_at::CONFIRMED_AT};

/// Version of the migration with which a replacement tells since when its coupon was usable.
const USABLE_SINCE: i64 = 20_261_124_000_040;

/// Returns replacements that do not stand in the place of a cancelled coupon: the cancelled one is missing or has
/// another status, or template, user, claim or time of claim differ, or the number is not the replacement's own id, or
/// the audit record does not name the replacement, or its times are not those of the cancellation and of the cancelled
/// one's confirmation. Where issued coupons never had to follow a change of validity, its
/// validity must also be that of the cancelled one, except that its last extension sets its end.
pub async fn odd_replacements(
    connection: &mut MySqlConnection,
) -> Result<Vec<CouponId>, StoreError> {
    let confirmed_at = CONFIRMED_AT.replace("user_coupon.", "other.");
    let looked_at = concat!(
        "select replaced.replacement_id from coupon_replacement replaced \
         left join user_coupon one on one.id = replaced.replacement_id \
         left join user_coupon other on other.id = replaced.coupon_id \
         where one.id is null or other.id is null or other.status <> ? or one.claim_no <> one.id \
         or one.template_id <> replaced.template_id or one.template_id <> other.template_id \
         or one.user_id <> other.user_id or one.claim_id <> other.claim_id \
         or one.claimed_at <> other.claimed_at \
         or not exists (select 1 from audit_entry entry where entry.merchant_id = other.merchant_id \
          and entry.target = concat('coupons/', other.id) and entry.action = 'coupon.replace' \
          and cast(",
        json_field!("entry.after_json", "replaced_by"),
        " as binary) = cast(one.id as binary)) \
         or replaced.created_at <> other.changed_at \
         or (one.version = 1 and one.changed_at <> replaced.created_at) \
         or (one.template_id not in (select template_id from validity_move) \
          and (one.valid_from <> other.valid_from or one.valid_until <> coalesce((select ",
        extended_to!(),
        " from audit_entry entry where entry.merchant_id = one.merchant_id \
           and entry.target = concat('coupons/', one.id) and entry.action = 'coupon.extend' \
           order by entry.id desc limit 1), other.valid_until)))",
    );
    let sql = format!(
        "{looked_at} or (replaced.created_at > (select installed_on from _sqlx_migrations \
         where version = ?) and not (replaced.usable_since <=> {confirmed_at})) limit ?"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(CouponStatus::Cancelled.code())
        .bind(USABLE_SINCE)
        .bind(EXAMPLES)
        .fetch_all(connection)
        .await;
    read_all("look for odd replacements", rows, |row| Ok(CouponId(row.try_get(0)?)))
}

/// Returns cancelled coupons without the line of the audit record that a revocation or replacement writes in its
/// transaction. Returned coupons are left out: a movement names who cancelled them.
pub async fn unrecorded_cancellations(
    connection: &mut MySqlConnection,
) -> Result<Vec<CouponId>, StoreError> {
    let rows = sqlx::query(
        "select coupon.id from user_coupon coupon where coupon.status = ? and coupon.issued_no is null \
         and not exists (select 1 from audit_entry entry where entry.merchant_id = coupon.merchant_id \
          and entry.target = concat('coupons/', coupon.id) \
          and entry.action in ('coupon.revoke', 'coupon.replace')) limit ?",
    )
    .bind(CouponStatus::Cancelled.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for cancellations that nobody recorded", rows, |row| {
        Ok(CouponId(row.try_get(0)?))
    })
}
