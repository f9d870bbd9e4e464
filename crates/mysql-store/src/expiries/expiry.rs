//! The deadline index: due coupons, and their flip to `expired`.
//!
//! `ix_deadline (expiry_shard, status, valid_until, id)` is the durable timer. Flipped rows leave its `unused` part, so
//! a shard's next deadline is its first entry. A flip requires that both the caller's clock and the server's have
//! reached the deadline, so a clock that is ahead cannot end a coupon early.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus};
use sqlx::{FromRow, MySqlConnection};

use crate::{StoreError, datetime::datetime, rows};

/// Largest number of coupons in one flipping statement: enough that its flush to disk hardly matters, and few enough
/// that a use of one of them does not notice the row locks. Below 1,000, from which on MariaDB turns a list into a
/// subquery.
pub const FLIP_MAX: usize = 512;

/// A coupon whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Due {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    /// Its deadline.
    pub valid_until: DateTime<Utc>,
}

/// Returns the earliest deadline of a shard's unused coupons, with one index seek.
///
/// # Errors
/// The statement fails.
pub async fn next_deadline(
    connection: &mut MySqlConnection,
    shard: u8,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    sqlx::query_scalar(
        "select min(valid_until) from user_coupon where expiry_shard = ? and status = ?",
    )
    .bind(shard)
    .bind(CouponStatus::Unused.code())
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("read a shard's next deadline"))
}

/// Returns a shard's coupons that are due by both clocks, at most `limit`, the earliest first.
///
/// # Errors
/// The statement fails.
pub async fn due(
    connection: &mut MySqlConnection,
    shard: u8,
    now: DateTime<Utc>,
    limit: u32,
) -> Result<Vec<Due>, StoreError> {
    sqlx::query_as(
        "select id, valid_until from user_coupon where expiry_shard = ? and status = ? \
         and valid_until <= least(cast(? as datetime(3)), utc_timestamp(3)) \
         order by valid_until, id limit ?",
    )
    .bind(shard)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(now))
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the coupons that are due"))
}

/// Flips those of `ids` that are unused and due by both clocks to `expired`, and returns how many. A coupon used or
/// flipped meanwhile stays as it is.
///
/// Each [`FLIP_MAX`] of them form one statement and a transaction of its own, so a caller that is stopped between two
/// statements holds no lock for which a use would wait.
///
/// # Errors
/// A statement fails. Then it is unknown whether they were flipped; the same call may be repeated.
pub async fn flip(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let mut ids = ids.to_vec();
    // Every writer locks in primary key order, so that flips and uses cannot deadlock.
    ids.sort_unstable();
    let mut flipped = 0;
    for chunk in ids.chunks(FLIP_MAX) {
        let filled = rows::filled(chunk);
        let sql = rows::repeat(
            "update user_coupon set status = ?, version = version + 1, changed_at = ? where id in (",
            "?",
            ", ",
            filled.len(),
            ") and status = ? and valid_until <= least(cast(? as datetime(3)), utc_timestamp(3))",
        );
        let statement = sqlx::query(sqlx::AssertSqlSafe(sql));
        let statement = statement.bind(CouponStatus::Expired.code()).bind(datetime(now));
        let statement = filled.iter().fold(statement, |statement, id| statement.bind(id.0));
        flipped += statement
            .bind(CouponStatus::Unused.code())
            .bind(datetime(now))
            .execute(&mut *connection)
            .await
            .map_err(StoreError::query("flip the coupons that are due"))?
            .rows_affected();
    }
    Ok(flipped)
}

/// Returns the traceparents of those of `ids` that were flipped at `now`, as far as their claims had one. At most
/// [`FLIP_MAX`] ids.
///
/// # Errors
/// The statement fails.
pub async fn trace_parents(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
    now: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let filled = rows::filled(ids);
    let sql = rows::repeat(
        "select trace_parent from user_coupon where id in (",
        "?",
        ", ",
        filled.len(),
        ") and status = ? and changed_at = ? and trace_parent is not null",
    );
    let statement = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
    filled
        .iter()
        .fold(statement, |statement, id| statement.bind(id.0))
        .bind(CouponStatus::Expired.code())
        .bind(datetime(now))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read the traces of flipped coupons"))
}

/// Counts a shard's unused coupons that end before `ends_before` (`None`: at any time) although their rows last changed
/// at `changed_by` or earlier; stops at `most`. If `ends_before` is the shard's earliest known deadline, no wake-up led
/// to these coupons.
///
/// # Errors
/// The statement fails.
pub async fn unannounced(
    connection: &mut MySqlConnection,
    shard: u8,
    ends_before: Option<DateTime<Utc>>,
    changed_by: DateTime<Utc>,
    most: u32,
) -> Result<u64, StoreError> {
    let ends_before = ends_before.map(datetime);
    let count: i64 = sqlx::query_scalar(
        "select count(*) from (select 1 from user_coupon where expiry_shard = ? and status = ? \
         and valid_until < coalesce(cast(? as datetime(3)), '9999-12-31') and changed_at <= ? \
         limit ?) as unannounced",
    )
    .bind(shard)
    .bind(CouponStatus::Unused.code())
    .bind(ends_before)
    .bind(datetime(changed_by))
    .bind(most)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count the coupons that no wake-up announced"))?;
    Ok(count.unsigned_abs())
}

/// Counts a shard's unused coupons with a deadline at or before `at`; stops at `most`.
///
/// # Errors
/// The statement fails.
pub async fn overdue(
    connection: &mut MySqlConnection,
    shard: u8,
    at: DateTime<Utc>,
    most: u32,
) -> Result<u64, StoreError> {
    let count: i64 = sqlx::query_scalar(
        "select count(*) from (select 1 from user_coupon where expiry_shard = ? and status = ? \
         and valid_until <= ? limit ?) as overdue",
    )
    .bind(shard)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(at))
    .bind(most)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count the coupons that are overdue"))?;
    Ok(count.unsigned_abs())
}
