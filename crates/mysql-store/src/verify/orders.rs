//! Compares orders with their redemptions, and the audit record with both: a use leaves a line, a redemption and, if a
//! shop's checkout made it, the order's row, in one transaction.

use coupon::CouponId;
use sqlx::{MySqlConnection, Row};

use super::{EXAMPLES, ends::json_field, read_all, redemptions::RECORDED_SINCE};
use crate::{
    StoreError,
    coupons::redemption::{REDEEM, USER},
};

/// An order whose row and whose redemptions disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddOrder {
    pub merchant: i64,
    /// Its name; bytes that are no text are replaced.
    pub name: String,
    /// What is wrong with it.
    pub why: OddOrderWhy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OddOrderWhy {
    /// Its row says in part what it redeemed, or holds something that is no time.
    Torn,
    /// No redemption has the user, amount, currency and time of its row.
    NotRedeemed,
    /// It was cancelled, and a redemption of it stands. A till's redemptions do not count: shoppers choose those names.
    StandsCancelled,
}

/// Returns orders whose row and whose redemptions disagree.
pub async fn odd_orders(connection: &mut MySqlConnection) -> Result<Vec<OddOrder>, StoreError> {
    let rows = sqlx::query(
        "select merchant_id, order_ref, torn, unmade from (select named.merchant_id, named.order_ref, \
         ((named.digest is null) + (named.user_id is null) + (named.amount is null) \
          + (named.currency is null) + (named.redeemed_at is null) not in (0, 5) \
          or (named.redeemed_at is not null and last_day(named.redeemed_at) is null) \
          or (named.cancelled_at is not null and last_day(named.cancelled_at) is null) \
          or last_day(named.created_at) is null) as torn, \
         (named.digest is not null and not exists (select 1 from redemption made \
          where made.merchant_id = named.merchant_id and made.order_ref = named.order_ref \
          and made.user_id = named.user_id and made.kind = ? and made.amount = named.amount \
          and made.currency = named.currency and made.created_at = named.redeemed_at)) as unmade, \
         (named.cancelled_at is not null and exists (select 1 from redemption made \
          left join redemption undone on undone.undoes = made.id \
          where made.merchant_id = named.merchant_id and made.order_ref = named.order_ref \
          and made.kind = ? and made.actor <> ? and undone.id is null)) as stands \
         from redemption_order named) looked_at where torn or unmade or stands limit ?",
    )
    .bind(REDEEM)
    .bind(REDEEM)
    .bind(USER)
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("compare orders with their redemptions", rows, |row| {
        let name: Vec<u8> = row.try_get("order_ref")?;
        let is = |column: &str| row.try_get_unchecked::<bool, _>(column);
        let why = match (is("torn")?, is("unmade")?) {
            (true, _) => OddOrderWhy::Torn,
            (false, true) => OddOrderWhy::NotRedeemed,
            (false, false) => OddOrderWhy::StandsCancelled,
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        Ok(OddOrder { merchant: row.try_get("merchant_id")?, name, why })
    })
}

/// A line of the audit record that no redemption bears out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostUse {
    /// The line's id.
    pub line: i64,
    pub coupon: CouponId,
    /// Whether the line is of a return; else it is of a use.
    pub was_returned: bool,
}

/// Returns uses in the audit record without a redemption, and returns of used coupons without a redemption that was
/// rolled back. An order that gave a coupon back cannot use it again, so there is one of each at most. Coupons that were
/// claimed before redemptions were recorded are not checked.
pub async fn lost_uses(connection: &mut MySqlConnection) -> Result<Vec<LostUse>, StoreError> {
    let rows = sqlx::query(concat!(
        "select entry.id, coupon.id as coupon, entry.action = 'coupon.unuse' as was_returned \
         from audit_entry entry straight_join user_coupon coupon \
         on coupon.id = cast(substring(entry.target, 9) as signed) \
         where entry.action in ('coupon.use', 'coupon.unuse') \
         and coupon.claimed_at > (select installed_on from _sqlx_migrations where version = ?) \
         and (entry.action = 'coupon.use' or ",
        json_field!("entry.before_json", "status"),
        " = 'used') \
         and not exists (select 1 from redemption made \
          left join redemption undone on undone.undoes = made.id \
          where made.coupon_id = coupon.id and made.kind = ? and made.order_ref = cast(",
        json_field!("entry.after_json", "order_ref"),
        " as binary) and (entry.action = 'coupon.use' or undone.id is not null)) limit ?",
    ))
    .bind(RECORDED_SINCE)
    .bind(REDEEM)
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("compare the audit record with redemptions", rows, |row| {
        Ok(LostUse {
            line: row.try_get("id")?,
            coupon: CouponId(row.try_get("coupon")?),
            was_returned: row.try_get_unchecked("was_returned")?,
        })
    })
}
