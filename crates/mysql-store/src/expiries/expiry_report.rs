//! Reports on expiry for operators: bounded reads of the deadline index over all shards.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponStatus, expiry_shards};
use sqlx::MySqlConnection;

use crate::{
    StoreError,
    datetime::datetime,
    expiries::expiry::{self, WITH_DEADLINE},
    rows,
};

/// Largest count: the number of index entries read for one count is bounded.
pub const COUNT_MAX: u64 = 100_000;

/// Number of a shard's latest flips, and of its latest lapses, whose lateness is reported.
const FLIPS_PER_SHARD: u32 = 100;

/// Oldest deadline of a reported flip, relative to now.
const FLIPS_OF: TimeDelta = TimeDelta::hours(24);

/// Returns the earliest deadline of all unused and held coupons, overdue ones included.
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

/// Counts the unused and held coupons that end at or after `from` and before `until`; [`COUNT_MAX`] + 1 means more than
/// [`COUNT_MAX`].
pub async fn ending_between(
    connection: &mut MySqlConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<u64, StoreError> {
    // With every shard and status listed, the deadlines are ranges of the index and nothing else is read.
    let sql = rows::repeat(
        "select count(*) from (select 1 from user_coupon where expiry_shard in (",
        "?",
        ", ",
        expiry_shards().count(),
        ") and status in (?, ?) and valid_until >= ? and valid_until < ? limit ?) as ending",
    );
    let statement = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
    let statement = expiry_shards().fold(statement, sqlx::query::QueryScalar::bind);
    let count: i64 = WITH_DEADLINE
        .iter()
        .fold(statement, |statement, status| statement.bind(status.code()))
        .bind(datetime(from))
        .bind(datetime(until))
        .bind(COUNT_MAX + 1)
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the coupons that end in a time"))?;
    Ok(count.unsigned_abs())
}

/// Returns the lateness of each shard's latest flips and lapses by deadline: those of the last day, at most 100 of each per
/// shard, in ascending order.
pub async fn lateness(
    connection: &mut MySqlConnection,
    now: DateTime<Utc>,
) -> Result<Vec<TimeDelta>, StoreError> {
    let mut late = Vec::new();
    let ends = [CouponStatus::Expired, CouponStatus::Lapsed];
    for (shard, end) in expiry_shards().flat_map(|shard| ends.map(|end| (shard, end))) {
        let flips: Vec<(DateTime<Utc>, DateTime<Utc>)> = sqlx::query_as(
            "select valid_until, changed_at from user_coupon where expiry_shard = ? \
             and status = ? and valid_until > ? order by valid_until desc, id desc limit ?",
        )
        .bind(shard)
        .bind(end.code())
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
