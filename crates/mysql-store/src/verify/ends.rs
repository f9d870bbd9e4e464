//! Finds coupons that ended wrongly, or whose validity is wrong.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, MoveState};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::{EXAMPLES, read_all, topic_rows::COUPONS};
use crate::{StoreError, coupons::user_coupon::UserCoupon, datetime::datetime};

/// How often operators extended a coupon's validity: each extension writes a line of the audit record in its
/// transaction.
const EXTENSIONS: &str = "(select count(*) from audit_entry entry where entry.merchant_id = coupon.merchant_id \
     and entry.target = concat('coupons/', coupon.id) and entry.action = 'coupon.extend')";

/// 1 if the coupon was held at first, so that a confirmation changed it once more.
const WAS_HELD: &str = "(select count(*) from claim where claim.id = coupon.claim_id and claim.held_until is not null)";

/// The value of a field in a column of the audit record. Null if there is none, also in a text that is no JSON, which
/// would end the statement on MySQL.
macro_rules! json_field {
    ($column:literal, $field:literal) => {
        concat!(
            "if(json_valid(",
            $column,
            "), json_unquote(json_extract(",
            $column,
            ", '$.",
            $field,
            "')), null)"
        )
    };
}
pub(super) use json_field;

/// The end that a line of the audit record gave a coupon. Null if the line has none.
macro_rules! extended_to {
    () => {
        concat!(
            "cast(replace(replace(",
            $crate::verify::ends::json_field!("entry.after_json", "valid_until"),
            ", 'T', ' '), 'Z', '') as datetime(3))"
        )
    };
}
pub(super) use extended_to;

/// A period of `$column` milliseconds. One that no validity has is cut: the server refuses to multiply it.
macro_rules! period {
    ($column:literal) => {
        concat!(
            "interval least(greatest(",
            $column,
            ", -999999999999), 999999999999) * 1000 microsecond"
        )
    };
}
pub(super) use period;

/// The end of a coupon's validity under the change `moved`.
macro_rules! moved_until {
    () => {
        concat!(
            "coalesce(moved.valid_until, coupon.claimed_at + ",
            $crate::verify::ends::period!("moved.valid_for_ms"),
            ")"
        )
    };
}

/// Returns coupons that expired or lapsed early or more than once, were used after their deadline, changed more often than
/// their confirmation, their end, their template's changes of validity and the operators' extensions explain, were revoked
/// or cancelled after their deadline, or are unused or held although their deadline is at or before `overdue_at`. Orders may use a coupon and give it back any number
/// of times, so changes of a coupon that was ever used are not counted here; the topic shows whether each was allowed.
/// Coupons that cannot be read are left out: [`super::topic_rows::coupons_from`] names them.
pub async fn bad_ends(
    connection: &mut MySqlConnection,
    overdue_at: DateTime<Utc>,
) -> Result<Vec<UserCoupon>, StoreError> {
    // The extensions are counted only for coupons that changed more often than moves explain.
    let too_often = |least: u32| {
        format!(
            "(order_ref is null and version not between {least} and {least} + coalesce(moves, 0) \
             and version not between {least} and {least} + coalesce(moves, 0) + {EXTENSIONS} + {WAS_HELD})"
        )
    };
    let issued = too_often(1);
    let ended = too_often(2);
    let sql = format!(
        "select coupon.* from user_coupon coupon \
         left join (select template_id, count(*) as moves from validity_move group by template_id) \
         followed on followed.template_id = coupon.template_id where \
         (status = ? and (changed_at < coupon.valid_until or {ended})) or \
         (status = ? and (used_at is null or used_at >= coupon.valid_until or version < 2)) or \
         (status = ? and (used_at is not null or coupon.valid_until <= ? or {issued})) or \
         (status = ? and (used_at is not null or changed_at >= coupon.valid_until or {ended})) or \
         (status = ? and (used_at is not null or coupon.valid_until <= ? or version <> 1)) or \
         (status = ? and (used_at is not null or changed_at < coupon.valid_until or version <> 2)) limit ?"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(CouponStatus::Expired.code())
        .bind(CouponStatus::Used.code())
        .bind(CouponStatus::Unused.code())
        .bind(datetime(overdue_at))
        .bind(CouponStatus::Cancelled.code())
        .bind(CouponStatus::Held.code())
        .bind(datetime(overdue_at))
        .bind(CouponStatus::Lapsed.code())
        .bind(EXAMPLES)
        .fetch_all(connection)
        .await;
    Ok(COUPONS.rows("look for coupons that ended wrongly", rows)?.rows)
}

/// Returns coupons with a wrong validity, of templates whose issued coupons ever had to follow a change: coupons that
/// were not moved and differ from their claim; that were moved and match no change; or that can still be used at `now`
/// and differ from the last change although its move is finished. A coupon that an order gave back keeps the validity
/// under which it was used. An extended coupon must end as one of its extensions or changes says. Replacements have a
/// validity of their own, and coupons that were held have theirs from the confirmation: they are not checked. Coupons
/// that cannot be read are left out.
pub async fn bad_validities(
    connection: &mut MySqlConnection,
    now: DateTime<Utc>,
) -> Result<Vec<UserCoupon>, StoreError> {
    let extended_to = extended_to!();
    let moved_until = moved_until!();
    let sql = format!(
        "select coupon.* from user_coupon coupon join claim \
         on claim.id = coupon.claim_id and claim.template_id = coupon.template_id \
         and claim.user_id = coupon.user_id \
         where coupon.template_id in (select template_id from validity_move) \
         and claim.held_until is null and (({EXTENSIONS} = 0 and ( \
         (coupon.version = 1 + (coupon.status <> ?) and (coupon.valid_from <> claim.valid_from \
          or coupon.valid_until <> claim.valid_until)) or \
         (coupon.version > 1 + (coupon.status <> ?) and not (coupon.order_ref is not null \
          and coupon.valid_from = claim.valid_from and coupon.valid_until = claim.valid_until) \
          and not exists (select 1 from validity_move moved where moved.template_id = coupon.template_id \
           and coupon.valid_from = coalesce(moved.valid_from, coupon.claimed_at) \
           and coupon.valid_until = {moved_until})) or \
         (coupon.status = ? and coupon.order_ref is null and coupon.valid_until > ? and exists \
          (select 1 from validity_move moved join template_stock stock \
           on stock.template_id = moved.template_id and stock.terms = moved.version \
           where moved.template_id = coupon.template_id and moved.state = ? \
           and (coupon.valid_from <> coalesce(moved.valid_from, coupon.claimed_at) \
            or coupon.valid_until <> {moved_until}))))) \
         or ({EXTENSIONS} > 0 and not exists (select 1 from validity_move moved \
           where moved.template_id = coupon.template_id \
           and coupon.valid_from = coalesce(moved.valid_from, coupon.claimed_at) \
           and coupon.valid_until = {moved_until}) \
          and not (exists (select 1 from audit_entry entry where entry.merchant_id = coupon.merchant_id \
            and entry.target = concat('coupons/', coupon.id) and entry.action = 'coupon.extend' \
            and {extended_to} = coupon.valid_until) \
           and (coupon.valid_from = claim.valid_from or exists (select 1 from validity_move moved \
            where moved.template_id = coupon.template_id \
            and coupon.valid_from = coalesce(moved.valid_from, coupon.claimed_at)))))) \
         and (select count(*) from coupon_replacement replaced \
          where replaced.replacement_id = coupon.id) = 0 limit ?"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(CouponStatus::Unused.code())
        .bind(CouponStatus::Unused.code())
        .bind(CouponStatus::Unused.code())
        .bind(datetime(now))
        .bind(MoveState::Finished.code())
        .bind(EXAMPLES)
        .fetch_all(connection)
        .await;
    Ok(COUPONS.rows("look for coupons of a wrong validity", rows)?.rows)
}

/// Version of the migration with which every return of a coupon became a line of the audit record.
const RETURNS_RECORDED_SINCE: i64 = 20_261_123_000_001;

/// Returns coupons whose row says that an order gave them back, although the audit record has no such return by that
/// order. A return and its line are one transaction, so the row was changed otherwise. Coupons that were claimed before
/// returns were recorded are not checked.
pub async fn unrecorded_returns(
    connection: &mut MySqlConnection,
) -> Result<Vec<CouponId>, StoreError> {
    let rows = sqlx::query(concat!(
        "select coupon.id from user_coupon coupon where coupon.status <> ? and coupon.order_ref is not null \
         and coupon.claimed_at > (select installed_on from _sqlx_migrations where version = ?) \
         and not exists (select 1 from audit_entry entry where entry.merchant_id = coupon.merchant_id \
          and entry.target = concat('coupons/', coupon.id) and entry.action = 'coupon.unuse' \
          and cast(", json_field!("entry.after_json", "order_ref"), " as binary) = cast(coupon.order_ref as binary)) limit ?",
    ))
    .bind(CouponStatus::Used.code())
    .bind(RETURNS_RECORDED_SINCE)
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for returns that nobody recorded", rows, |row| Ok(CouponId(row.try_get(0)?)))
}
