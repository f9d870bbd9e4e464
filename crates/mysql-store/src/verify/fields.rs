//! Checks columns of coupons, claims and stock rows that must agree with other rows.

use coupon::{ClaimId, ClaimState, CouponId, Open, Template};
use sqlx::{FromRow, MySqlConnection, Row};

use super::{
    EXAMPLES,
    ends::extended_to,
    page::{Reading, Rows, id},
    topic_rows::template_name,
};
use crate::{StoreError, code::code_of, templates::template};

/// A template and parts of its stock row.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub template: Template,
    /// Whether direct claims land.
    pub open: bool,
    /// Whether the queue is closed, so that no queued claim is left to land.
    pub queue_closed: bool,
    /// The template's version at the last change of its validity.
    pub terms: i64,
    /// The last such version that issued coupons had to follow; 0 if none.
    pub followed: i64,
    /// Number of the template's last movement; 0 if there is none.
    pub movement: i64,
}

/// A coupon that disagrees with its claim or template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct OddCoupon {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    /// Its merchant is not its template's.
    pub merchant: bool,
    /// Its time of claim is not its claim's.
    #[sqlx(rename = "claimed")]
    pub claimed_at: bool,
    /// It does not begin with its claim's validity, or does not end with it or, if extended, as its last extension
    /// says. Checked only if issued coupons never had to follow a change of validity, it replaces none and was never
    /// held.
    pub validity: bool,
}

/// Returns every template with parts of its stock row.
pub async fn terms(connection: &mut MySqlConnection) -> Result<Rows<Terms, i64>, StoreError> {
    let rows = sqlx::query(
        "select template.*, stock.open, stock.queue_closed, stock.terms, (select coalesce(max(version), 0) \
         from validity_move where template_id = template.id) as followed, \
         (select coalesce(max(seq), 0) from stock_movement where template_id = template.id) as movement \
         from coupon_template template join template_stock stock on stock.template_id = template.id",
    )
    .fetch_all(connection)
    .await;
    let terms = Reading {
        read: |row| {
            Ok(Terms {
                template: template::from_row(row)?,
                open: code_of::<Open>(row, "open")?.lands_direct(),
                queue_closed: row.try_get("queue_closed")?,
                terms: row.try_get("terms")?,
                followed: row.try_get("followed")?,
                movement: row.try_get("movement")?,
            })
        },
        key: id,
        name: template_name,
    };
    terms.rows("read the templates", rows)
}

/// Returns coupons that disagree with their claim or template.
pub async fn odd_coupons(connection: &mut MySqlConnection) -> Result<Vec<OddCoupon>, StoreError> {
    sqlx::query_as(concat!(
        "select id, cast(merchant as signed) as merchant, cast(claimed as signed) as claimed, \
         cast(validity as signed) as validity from (select coupon.id, \
         coupon.merchant_id <> template.merchant_id as merchant, \
         coupon.claimed_at <> claim.created_at as claimed, \
         claim.held_until is null and \
         coupon.template_id not in (select template_id from validity_move) and \
         (select count(*) from coupon_replacement replaced \
          where replaced.replacement_id = coupon.id) = 0 and \
         (coupon.valid_from <> claim.valid_from or coupon.valid_until <> coalesce((select ",
        extended_to!(),
        " from audit_entry entry where entry.merchant_id = coupon.merchant_id \
          and entry.target = concat('coupons/', coupon.id) and entry.action = 'coupon.extend' \
          order by entry.id desc limit 1), claim.valid_until)) as validity \
         from user_coupon coupon straight_join claim on claim.id = coupon.claim_id \
         straight_join coupon_template template on template.id = coupon.template_id) looked_at \
         where merchant or claimed or validity limit ?",
    ))
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("compare coupons with their claims"))
}

/// Returns claims under a key of the wrong kind: a fence under a client's key, or a claim under a fence's. True marks a
/// fence. The claims of grants have keys that begin with `~g` ([`coupon::RequestId::grant`]).
pub async fn misplaced_claims(
    connection: &mut MySqlConnection,
) -> Result<Vec<(ClaimId, bool)>, StoreError> {
    let rows: Vec<(i64, i8)> = sqlx::query_as(
        "select id, state from claim where (state = ? and request_id <> cast(concat('~', id) as binary)) \
         or (state <> ? and substring(request_id, 1, 1) = cast('~' as binary) \
          and substring(request_id, 1, 2) <> cast('~g' as binary)) limit ?",
    )
    .bind(ClaimState::Void.code())
    .bind(ClaimState::Void.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("look for fences on clients' keys"))?;
    let fence = ClaimState::Void.code().cast_signed();
    Ok(rows.into_iter().map(|(id, state)| (ClaimId(id), state == fence)).collect())
}
