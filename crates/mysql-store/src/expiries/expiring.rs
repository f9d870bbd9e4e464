//! Coupons that end soon and are not announced yet: a cursor over the deadline index.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use sqlx::{MySqlConnection, Row};

use crate::{StoreError, datetime::datetime};

/// A position in a shard's part of the deadline index. Everything up to it is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Deadline of the last announced coupon.
    pub valid_until: DateTime<Utc>,
    /// Last announced coupon of that deadline.
    pub id: CouponId,
}

/// A coupon that ends soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiring {
    pub id: CouponId,
    pub template_id: TemplateId,
    pub user_id: UserId,
    pub claimed_at: DateTime<Utc>,
    pub valid_until: DateTime<Utc>,
}

/// Returns the announcement cursor of a shard and lead time, or `None` if nothing was announced yet.
///
/// # Errors
/// The statement fails.
pub async fn cursor(
    connection: &mut MySqlConnection,
    shard: u8,
    lead_seconds: u32,
) -> Result<Option<Cursor>, StoreError> {
    let row: Option<(DateTime<Utc>, i64)> = sqlx::query_as(
        "select valid_until, id from expiring_cursor where shard = ? and lead_seconds = ?",
    )
    .bind(shard)
    .bind(lead_seconds)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read how far announcements are"))?;
    Ok(row.map(|(valid_until, id)| Cursor { valid_until, id: CouponId(id) }))
}

/// Moves a cursor forward, never back.
///
/// # Errors
/// The statement fails. Announced coupons are then announced again.
pub async fn advance(
    connection: &mut MySqlConnection,
    shard: u8,
    lead_seconds: u32,
    to: Cursor,
) -> Result<(), StoreError> {
    // The id is set first, because its condition needs the old deadline.
    sqlx::query(
        "insert into expiring_cursor (shard, lead_seconds, valid_until, id) values (?, ?, ?, ?) \
         on duplicate key update \
         id = if((values(valid_until), values(id)) > (valid_until, id), values(id), id), \
         valid_until = greatest(valid_until, values(valid_until))",
    )
    .bind(shard)
    .bind(lead_seconds)
    .bind(datetime(to.valid_until))
    .bind(to.id.0)
    .execute(connection)
    .await
    .map_err(StoreError::query("move announcements on"))?;
    Ok(())
}

/// Returns a shard's unused coupons after the cursor that end by `until`, at most `limit`, in index order.
///
/// # Errors
/// The statement fails.
pub async fn behind(
    connection: &mut MySqlConnection,
    shard: u8,
    after: Cursor,
    until: DateTime<Utc>,
    limit: u32,
) -> Result<Vec<Expiring>, StoreError> {
    let rows = sqlx::query(
        "select id, template_id, user_id, claimed_at, valid_until from user_coupon \
         where expiry_shard = ? and status = ? and valid_until between ? and ? \
         and (valid_until > ? or id > ?) order by valid_until, id limit ?",
    )
    .bind(shard)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(after.valid_until))
    .bind(datetime(until))
    .bind(datetime(after.valid_until))
    .bind(after.id.0)
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the coupons that end soon"))?;
    rows.iter()
        .map(|row| {
            Ok(Expiring {
                id: CouponId(row.try_get("id")?),
                template_id: TemplateId(row.try_get("template_id")?),
                user_id: UserId(row.try_get("user_id")?),
                claimed_at: row.try_get("claimed_at")?,
                valid_until: row.try_get("valid_until")?,
            })
        })
        .collect::<Result<_, sqlx::Error>>()
        .map_err(StoreError::query("read the coupons that end soon"))
}
