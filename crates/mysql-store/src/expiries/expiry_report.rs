//! Reports on expiry for operators: bounded reads of the deadline index over all shards.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponStatus, expiry_shards};
use sqlx::MySqlConnection;

use crate::{StoreError, datetime::datetime, expiries::expiry, rows};

/// Largest count: the number of index entries read for one count is bounded.
pub const COUNT_MAX: u64 = 100_000;

/// Number of a shard's latest flips whose lateness is reported.
const FLIPS_PER_SHARD: u32 = 100;

/// Oldest deadline of a reported flip, relative to now.
const FLIPS_OF: TimeDelta = TimeDelta::hours(24);

/// Returns the earliest deadline of all unused coupons, overdue ones included.
///
/// # Errors
/// A statement fails.
pub async fn earliest_deadline(
    connection: &mut MySqlConnection,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let mut earliest = None;
    for shard in expiry_shards() {
        let next = expiry::next_deadline(connection, shard).await?;
        earliest = earliest.into_iter().chain(next).min();
    }
    Ok(earliest)
}

/// Counts the unused coupons that end at or after `from` and before `until`; [`COUNT_MAX`] + 1
/// means more than [`COUNT_MAX`].
///
/// # Errors
/// The statement fails.
pub async fn ending_between(
    connection: &mut MySqlConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<u64, StoreError> {
    // With every shard listed, the deadlines are ranges of the index and nothing else is read.
    let sql = rows::repeat(
        "select count(*) from (select 1 from user_coupon where expiry_shard in (",
        "?",
        ", ",
        expiry_shards().count(),
        ") and status = ? and valid_until >= ? and valid_until < ? limit ?) as ending",
    );
    let statement = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
    let count: i64 = expiry_shards()
        .fold(statement, sqlx::query::QueryScalar::bind)
        .bind(CouponStatus::Unused.code())
        .bind(datetime(from))
        .bind(datetime(until))
        .bind(COUNT_MAX + 1)
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the coupons that end in a time"))?;
    Ok(count.unsigned_abs())
}

/// Returns the lateness of each shard's latest flips by deadline: those of the last day, at most
/// 100 per shard, in ascending order.
///
/// # Errors
/// A statement fails.
pub async fn lateness(
    connection: &mut MySqlConnection,
    now: DateTime<Utc>,
) -> Result<Vec<TimeDelta>, StoreError> {
    let mut late = Vec::new();
    for shard in expiry_shards() {
        let flips: Vec<(DateTime<Utc>, DateTime<Utc>)> = sqlx::query_as(
            "select valid_until, changed_at from user_coupon where expiry_shard = ? \
             and status = ? and valid_until > ? order by valid_until desc, id desc limit ?",
        )
        .bind(shard)
        .bind(CouponStatus::Expired.code())
        .bind(datetime(now - FLIPS_OF))
        .bind(FLIPS_PER_SHARD)
        .fetch_all(&mut *connection)
        .await
        .map_err(StoreError::query("read the latest flips"))?;
        late.extend(flips.into_iter().map(|(valid_until, changed_at)| changed_at - valid_until));
    }
    late.sort_unstable();
    Ok(late)
}
