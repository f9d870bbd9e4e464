//! The deadline index: due coupons, and the flip of the unused ones to `expired`. Held ones lapse by
//! [`returns`](crate::returns).
//!
//! `ix_deadline (expiry_shard, status, valid_until, id)` is the durable timer. Coupons that ended leave its `unused` and
//! `held` parts, so the first entries of the two lead to a shard's next deadline. A flip requires that both the caller's
//! clock and the server's have reached the deadline, so a clock that is ahead cannot end a coupon early.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, ReturnedStock, TemplateId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection};

use crate::{StoreError, code::Code, datetime::datetime, rows};

/// The statuses with a deadline: the parts of the index that are read, one seek each.
pub(crate) const WITH_DEADLINE: [CouponStatus; 2] = [CouponStatus::Unused, CouponStatus::Held];

/// Largest number of coupons in one flipping statement: enough that its flush to disk hardly matters, and few enough
/// that a use of one of them does not notice the row locks. Below 1,000, from which on MariaDB turns a list into a
/// subquery.
pub const FLIP_MAX: usize = 512;

/// An unused coupon whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Due {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    /// Its deadline.
    pub valid_until: DateTime<Utc>,
}

/// A held coupon whose hold has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct DueHold {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    /// The end of its hold.
    pub valid_until: DateTime<Utc>,
}

/// Returns the earliest deadline of a shard's unused and held coupons, with one index seek each.
pub async fn next_deadline(
    connection: &mut MySqlConnection,
    shard: u8,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    next_deadline_after(connection, shard, DateTime::UNIX_EPOCH).await
}

/// Like [`next_deadline`], of the coupons that end after `after`.
pub async fn next_deadline_after(
    connection: &mut MySqlConnection,
    shard: u8,
    after: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let of_each = "select min(valid_until) as next from user_coupon \
                   where expiry_shard = ? and status = ? and valid_until > ?";
    let sql = rows::repeat("", of_each, " union all ", WITH_DEADLINE.len(), "");
    let mut query = sqlx::query_scalar(AssertSqlSafe(sql));
    for status in WITH_DEADLINE {
        query = query.bind(shard).bind(status.code()).bind(datetime(after));
    }
    let of_each: Vec<Option<DateTime<Utc>>> = query
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read a shard's next deadline"))?;
    Ok(of_each.into_iter().flatten().min())
}

/// Returns a shard's unused coupons behind `after` in the order of the index that are due by both clocks, at most `limit`.
pub async fn due(
    connection: &mut MySqlConnection,
    shard: u8,
    after: Option<Due>,
    now: DateTime<Utc>,
    limit: u32,
) -> Result<Vec<Due>, StoreError> {
    let (ends_after, id_after) =
        after.map_or((DateTime::UNIX_EPOCH, 0), |due| (due.valid_until, due.id.0));
    sqlx::query_as(
        "select id, valid_until from user_coupon \
         where expiry_shard = ? and status = ? and valid_until >= ? \
         and valid_until <= least(cast(? as datetime(3)), utc_timestamp(3)) \
         and (valid_until > ? or id > ?) order by valid_until, id limit ?",
    )
    .bind(shard)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(ends_after))
    .bind(datetime(now))
    .bind(datetime(ends_after))
    .bind(id_after)
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the coupons that are due"))
}

/// Returns a shard's held coupons behind `after` in the order of the index whose holds have ended by both clocks, at most
/// `limit`.
pub async fn due_holds(
    connection: &mut MySqlConnection,
    shard: u8,
    after: Option<DueHold>,
    now: DateTime<Utc>,
    limit: u32,
) -> Result<Vec<DueHold>, StoreError> {
    let (ends_after, id_after) =
        after.map_or((DateTime::UNIX_EPOCH, 0), |hold| (hold.valid_until, hold.id.0));
    sqlx::query_as(
        "select id, template_id, valid_until from user_coupon \
         where expiry_shard = ? and status = ? and valid_until >= ? \
         and valid_until <= least(cast(? as datetime(3)), utc_timestamp(3)) \
         and (valid_until > ? or id > ?) order by valid_until, id limit ?",
    )
    .bind(shard)
    .bind(CouponStatus::Held.code())
    .bind(datetime(ends_after))
    .bind(datetime(now))
    .bind(datetime(ends_after))
    .bind(id_after)
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the holds that have ended"))
}

/// Returns what becomes of a template's stock when its holds end, or `None` without such a template.
///
/// # Errors
/// The statement fails, or the template's row is unreadable.
pub async fn returned_stock(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<ReturnedStock>, StoreError> {
    let code: Option<Code> =
        sqlx::query_scalar("select returned_stock from coupon_template where id = ?")
            .bind(template.0)
            .fetch_optional(connection)
            .await
            .map_err(StoreError::query("read what becomes of returned stock"))?;
    Ok(code.map(ReturnedStock::try_from).transpose()?)
}

/// Flips those of `ids` that are unused and due by both clocks to `expired`, and returns how many. A coupon used or
/// flipped meanwhile stays as it is.
///
/// Each [`FLIP_MAX`] of them are one statement and one transaction, so a caller that is stopped between two
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
        let statement = sqlx::query(AssertSqlSafe(sql));
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

/// Returns those of `ids`, at most [`FLIP_MAX`], that no other transaction has locked at this moment. Does not wait for
/// the others, and leaves none locked.
pub async fn free_of(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
) -> Result<BTreeSet<CouponId>, StoreError> {
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let filled = rows::filled(ids);
    let head = "select id from user_coupon force index (primary) where id in (";
    let sql = rows::repeat(head, "?", ", ", filled.len(), ") order by id for update skip locked");
    let query = sqlx::query_scalar(AssertSqlSafe(sql));
    let free: Vec<i64> = filled
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("look for locked coupons"))?;
    Ok(free.into_iter().map(CouponId).collect())
}

/// Returns those of `ids`, at most [`FLIP_MAX`], that are still held.
pub async fn still_held(
    connection: &mut MySqlConnection,
    ids: &[CouponId],
) -> Result<Vec<CouponId>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let filled = rows::filled(ids);
    let head = "select id from user_coupon force index (primary) where id in (";
    let sql = rows::repeat(head, "?", ", ", filled.len(), ") and status = ?");
    let query = sqlx::query_scalar(AssertSqlSafe(sql));
    let held: Vec<i64> = filled
        .iter()
        .fold(query, |query, id| query.bind(id.0))
        .bind(CouponStatus::Held.code())
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("look for coupons that are still held"))?;
    Ok(held.into_iter().map(CouponId).collect())
}

/// Returns the traceparents of those of `ids` that were flipped at `now`, as far as their claims had one. At most
/// [`FLIP_MAX`] ids.
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
    let statement = sqlx::query_scalar(AssertSqlSafe(sql));
    filled
        .iter()
        .fold(statement, |statement, id| statement.bind(id.0))
        .bind(CouponStatus::Expired.code())
        .bind(datetime(now))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read the traces of flipped coupons"))
}

/// Counts a shard's coupons with a deadline, unused or held, that end before `ends_before` (`None`: at any time) although
/// their rows last changed at `changed_by` or earlier; stops at `most` of each status. If `ends_before` is the shard's
/// earliest known deadline, no wake-up led to these coupons.
pub async fn unannounced(
    connection: &mut MySqlConnection,
    shard: u8,
    ends_before: Option<DateTime<Utc>>,
    changed_by: DateTime<Utc>,
    most: u32,
) -> Result<u64, StoreError> {
    let ends_before = ends_before.map(datetime);
    let of_each = "select 1 from user_coupon where expiry_shard = ? and status = ? \
                   and valid_until < coalesce(cast(? as datetime(3)), '9999-12-31') \
                   and changed_at <= ? limit ?";
    let sql = counting(of_each);
    let mut query = sqlx::query_scalar(AssertSqlSafe(sql));
    for status in WITH_DEADLINE {
        let of_each = query.bind(shard).bind(status.code()).bind(ends_before);
        query = of_each.bind(datetime(changed_by)).bind(most);
    }
    let count: i64 = query
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the coupons that no wake-up announced"))?;
    Ok(count.unsigned_abs())
}

/// Counts a shard's unused and held coupons with a deadline at or before `at`; stops at `most` of each status.
pub async fn overdue(
    connection: &mut MySqlConnection,
    shard: u8,
    at: DateTime<Utc>,
    most: u32,
) -> Result<u64, StoreError> {
    let of_each = "select 1 from user_coupon where expiry_shard = ? and status = ? \
                   and valid_until <= ? limit ?";
    let sql = counting(of_each);
    let mut query = sqlx::query_scalar(AssertSqlSafe(sql));
    for status in WITH_DEADLINE {
        query = query.bind(shard).bind(status.code()).bind(datetime(at)).bind(most);
    }
    let count: i64 = query
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the coupons that are overdue"))?;
    Ok(count.unsigned_abs())
}

/// Returns the number of held coupons of a shard, at most `most`.
pub async fn held(
    connection: &mut MySqlConnection,
    shard: u8,
    most: u32,
) -> Result<u64, StoreError> {
    let count: i64 = sqlx::query_scalar(
        "select count(*) from \
         (select 1 from user_coupon where expiry_shard = ? and status = ? limit ?) as counted",
    )
    .bind(shard)
    .bind(CouponStatus::Held.code())
    .bind(most)
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count the coupons that are held"))?;
    Ok(count.unsigned_abs())
}

/// A statement that counts the rows of `of_each` for each status with a deadline.
fn counting(of_each: &str) -> String {
    let of_each = format!("({of_each})");
    let head = "select count(*) from (";
    rows::repeat(head, &of_each, " union all ", WITH_DEADLINE.len(), ") as counted")
}
