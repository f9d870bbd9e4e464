//! What a checkout needs to know of coupons before it uses them: the rows, locked, their templates' terms, and the locks
//! that other orders have placed (`coupon_lock`).
//!
//! Every writer locks the coupon's own row first, so a lock is placed, read and lifted under it. A lock lapses by
//! the server's clock alone: the one clock that all processes share. It has no effect once its order is cancelled,
//! whichever of the two was written first, since each reader of a lock reads its order too.

use chrono::{DateTime, Utc};
use coupon::{CouponId, Discount, MerchantId};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    StoreError, code::code_of, coupons::user_coupon::UserCoupon, datetime::NullableTime, rows,
};

/// A coupon's terms, and the lock in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub coupon: CouponId,
    pub discount: Discount,
    /// Whether one order may redeem it together with others.
    pub stackable: bool,
    /// Whether its user may redeem it.
    pub self_redeem: bool,
    /// `None`: no lock is in force. A cancelled order's is not.
    pub lock: Option<Lock>,
}

/// A lock in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The order that the coupon is kept for.
    pub order_ref: String,
    /// When it lapses, by the server's clock.
    pub until: DateTime<Utc>,
}

/// Returns a coupon of a merchant, of any user.
pub async fn find(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    id: CouponId,
) -> Result<Option<UserCoupon>, StoreError> {
    sqlx::query_as("select * from user_coupon where id = ? and merchant_id = ?")
        .bind(id.0)
        .bind(merchant.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read a coupon"))
}

/// Returns those of `ids` that are a merchant's, by id, locked until the transaction ends.
pub async fn lock_rows(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    ids: &[CouponId],
) -> Result<Vec<UserCoupon>, StoreError> {
    locked(transaction, merchant, ids, ") and merchant_id = ? order by id for update").await
}

/// Like [`lock_rows`], without those that another transaction has locked.
pub async fn lock_free_rows(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    ids: &[CouponId],
) -> Result<Vec<UserCoupon>, StoreError> {
    let tail = ") and merchant_id = ? order by id for update skip locked";
    locked(transaction, merchant, ids, tail).await
}

async fn locked(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    ids: &[CouponId],
    tail: &str,
) -> Result<Vec<UserCoupon>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let filled = rows::filled(ids);
    // Locks in primary key order, like every writer of several coupons.
    let head = "select * from user_coupon force index (primary) where id in (";
    let query =
        sqlx::query_as(sqlx::AssertSqlSafe(rows::repeat(head, "?", ", ", filled.len(), tail)));
    filled
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .bind(merchant.0)
        .fetch_all(transaction)
        .await
        .map_err(StoreError::query("hold coupons"))
}

/// Returns the terms and locks of those of `ids` that exist, by id.
pub async fn terms(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
) -> Result<Vec<Terms>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let filled = rows::filled(ids);
    let sql = rows::repeat(
        "select coupon.id, template.discount_kind, template.discount_value, template.discount_cap, \
         template.minimum_spend, template.currency, template.stackable, template.self_redeem, \
         kept.order_ref as lock_order, kept.locked_until \
         from user_coupon coupon join coupon_template template on template.id = coupon.template_id \
         left join coupon_lock kept on kept.coupon_id = coupon.id \
         and kept.locked_until > utc_timestamp(3) \
         and not exists (select 1 from redemption_order ended where ended.merchant_id = coupon.merchant_id \
         and ended.order_ref = kept.order_ref and ended.cancelled_at is not null) where coupon.id in (",
        "?",
        ", ",
        filled.len(),
        ") order by coupon.id",
    );
    let query = sqlx::query(sqlx::AssertSqlSafe(sql));
    let rows = filled.iter().fold(query, |query, id| query.bind(id.0));
    rows.fetch_all(connection)
        .await
        .and_then(|rows| rows.iter().map(from_row).collect())
        .map_err(StoreError::query("read the terms of coupons"))
}

fn from_row(row: &MySqlRow) -> Result<Terms, sqlx::Error> {
    let order: Option<Vec<u8>> = row.try_get("lock_order")?;
    let until: Option<DateTime<Utc>> = row.try_get::<NullableTime, _>("locked_until")?.into();
    let lock = order.zip(until).map(|(order, until)| Lock {
        order_ref: String::from_utf8_lossy(&order).into_owned(),
        until,
    });
    Ok(Terms {
        coupon: CouponId(row.try_get("id")?),
        discount: Discount {
            kind: code_of(row, "discount_kind")?,
            value: row.try_get("discount_value")?,
            cap: row.try_get("discount_cap")?,
            minimum_spend: row.try_get("minimum_spend")?,
            currency: row.try_get("currency")?,
        },
        stackable: row.try_get("stackable")?,
        self_redeem: row.try_get("self_redeem")?,
        lock,
    })
}

/// Returns the lock of a coupon that is in force, whatever its template says.
pub async fn lock_in_force(
    connection: &mut MySqlConnection,
    coupon: CouponId,
) -> Result<Option<Lock>, StoreError> {
    let found: Option<(Vec<u8>, DateTime<Utc>)> = sqlx::query_as(
        "select kept.order_ref, kept.locked_until from coupon_lock kept \
         join user_coupon coupon on coupon.id = kept.coupon_id \
         where kept.coupon_id = ? and kept.locked_until > utc_timestamp(3) \
         and not exists (select 1 from redemption_order ended where ended.merchant_id = coupon.merchant_id \
         and ended.order_ref = kept.order_ref and ended.cancelled_at is not null)",
    )
    .bind(coupon.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read the lock of a coupon"))?;
    let lock = |(order, until): (Vec<u8>, DateTime<Utc>)| Lock {
        order_ref: String::from_utf8_lossy(&order).into_owned(),
        until,
    };
    Ok(found.map(lock))
}

/// Locks a coupon, whose row is locked, for an order for `for_ms` milliseconds from now, and returns the end. Call it
/// only if no other order's lock is in force; an earlier lock of the same order is replaced.
pub async fn lock(
    transaction: &mut MySqlConnection,
    coupon: CouponId,
    order_ref: &str,
    for_ms: i64,
) -> Result<DateTime<Utc>, StoreError> {
    sqlx::query(
        "insert into coupon_lock (coupon_id, order_ref, locked_until) \
         values (?, ?, utc_timestamp(3) + interval ? * 1000 microsecond) \
         on duplicate key update order_ref = values(order_ref), locked_until = values(locked_until)",
    )
    .bind(coupon.0)
    .bind(order_ref.as_bytes())
    .bind(for_ms)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("lock a coupon"))?;
    sqlx::query_scalar("select locked_until from coupon_lock where coupon_id = ?")
        .bind(coupon.0)
        .fetch_one(transaction)
        .await
        .map_err(StoreError::query("read a coupon's lock"))
}

/// Lifts an order's lock, if there is one, of a coupon whose row is locked.
pub async fn unlock(
    transaction: &mut MySqlConnection,
    coupon: CouponId,
    order_ref: &str,
) -> Result<(), StoreError> {
    sqlx::query("delete from coupon_lock where coupon_id = ? and order_ref = ?")
        .bind(coupon.0)
        .bind(order_ref.as_bytes())
        .execute(transaction)
        .await
        .map_err(StoreError::query("lift a coupon's lock"))?;
    Ok(())
}
