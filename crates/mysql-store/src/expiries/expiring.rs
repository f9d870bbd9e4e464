//! Coupons that end soon and are not announced yet: a cursor over the deadline index.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use sqlx::{FromRow, MySqlConnection};

use crate::{StoreError, datetime::datetime};

/// A position in a shard's part of the deadline index. Everything up to it is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromRow)]
pub struct Cursor {
    /// Deadline of the last announced coupon.
    pub valid_until: DateTime<Utc>,
    /// Last announced coupon of that deadline.
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
}

/// A coupon that ends soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Expiring {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    #[sqlx(try_from = "i64")]
    pub user_id: UserId,
    pub claimed_at: DateTime<Utc>,
    pub valid_until: DateTime<Utc>,
}

/// Returns the announcement cursor of a shard and lead time, or `None` if nothing was announced yet.
pub async fn cursor(
    connection: &mut MySqlConnection,
    shard: u8,
    lead_seconds: u32,
) -> Result<Option<Cursor>, StoreError> {
    sqlx::query_as(
        "select valid_until, id from expiring_cursor where shard = ? and lead_seconds = ?",
    )
    .bind(shard)
    .bind(lead_seconds)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read how far announcements are"))
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
pub async fn behind(
    connection: &mut MySqlConnection,
    shard: u8,
    after: Cursor,
    until: DateTime<Utc>,
    limit: u32,
) -> Result<Vec<Expiring>, StoreError> {
    sqlx::query_as(
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
    .map_err(StoreError::query("read the coupons that end soon"))
}
