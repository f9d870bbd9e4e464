//! What "my coupons" needs of the truth: the rows of a view's rebuild, the pages that no view holds,
//! and the generation that all views share.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, UserId};
use sqlx::{MySqlConnection, Row};

use crate::{
    StoreError,
    datetime::datetime,
    user_coupon::{self, UserCoupon},
};

/// Attempts at raising the generation. Each failure means that another process has just moved it,
/// and processes do so once per connection.
const RAISES_MAX: u32 = 32;

/// Which ended coupons a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Those that were used.
    Used,
    /// Those whose validity ended unused, flipped or not.
    Expired,
}

/// The rows of a view's rebuild: the user's unused coupons, and every one changed since
/// `changed_since`, whatever its status.
///
/// Without the latter a consumer that lags would bring a used coupon back: it applies the old
/// insert, and the rebuild knows of no newer version.
///
/// # Errors
/// The statement fails.
pub async fn rows_for_rebuild(
    connection: &mut MySqlConnection,
    user: UserId,
    changed_since: DateTime<Utc>,
) -> Result<Vec<UserCoupon>, StoreError> {
    let rows = sqlx::query(
        "select * from user_coupon where user_id = ? and (status = ? or changed_at >= ?)",
    )
    .bind(user.0)
    .bind(CouponStatus::Unused.code())
    .bind(datetime(changed_since))
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read a user's coupons"))?;
    rows.iter().map(user_coupon::from_row).collect()
}

/// A page of a user's ended coupons with ids below `before`, at most `limit`, the newest first.
///
/// A row that is due but not flipped yet counts as expired and comes back as it is written; see
/// [`CouponStatus::at`].
///
/// # Errors
/// The statement fails.
pub async fn ended_page(
    connection: &mut MySqlConnection,
    user: UserId,
    ended: Ended,
    before: Option<CouponId>,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<Vec<UserCoupon>, StoreError> {
    let before = before.map_or(i64::MAX, |id| id.0);
    let rows = match ended {
        Ended::Used => {
            sqlx::query(
                "select * from user_coupon where user_id = ? and status = ? and id < ? \
                 order by id desc limit ?",
            )
            .bind(user.0)
            .bind(CouponStatus::Used.code())
            .bind(before)
            .bind(limit)
            .fetch_all(connection)
            .await
        }
        Ended::Expired => {
            // Each half is a backward read of ix_user; only their merge is sorted.
            sqlx::query(
                "(select * from user_coupon where user_id = ? and status = ? and id < ? \
                  order by id desc limit ?) union all \
                 (select * from user_coupon where user_id = ? and status = ? and id < ? \
                  and valid_until <= ? order by id desc limit ?) order by id desc limit ?",
            )
            .bind(user.0)
            .bind(CouponStatus::Expired.code())
            .bind(before)
            .bind(limit)
            .bind(user.0)
            .bind(CouponStatus::Unused.code())
            .bind(before)
            .bind(datetime(now))
            .bind(limit)
            .bind(limit)
            .fetch_all(connection)
            .await
        }
    };
    let rows = rows.map_err(StoreError::query("read a page of ended coupons"))?;
    rows.iter().map(user_coupon::from_row).collect()
}

/// The generation of all views for the Redis server that calls itself `run_id` now. Another id than
/// the stored one means that writes may be lost: the generation rises, and every view built under an
/// older one is cold at once.
///
/// # Errors
/// A statement fails.
pub async fn generation_of(
    connection: &mut MySqlConnection,
    run_id: &str,
) -> Result<i64, StoreError> {
    for _ in 0..RAISES_MAX {
        match stored_generation(connection).await? {
            Some((stored, generation)) if stored == run_id => return Ok(generation),
            Some((_, generation)) => {
                if raise(connection, run_id, generation).await? {
                    return Ok(generation + 1);
                }
            }
            None => insert_first(connection, run_id).await?,
        }
    }
    Err(StoreError::unreadable("view_generation: other processes kept changing it"))
}

async fn stored_generation(
    connection: &mut MySqlConnection,
) -> Result<Option<(String, i64)>, StoreError> {
    let row = sqlx::query("select run_id, generation from view_generation where id = 1")
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read the view generation"))?;
    row.map(|row| Ok((row.try_get("run_id")?, row.try_get("generation")?)))
        .transpose()
        .map_err(StoreError::query("read the view generation"))
}

/// Compare and set: false if another process was faster.
async fn raise(
    connection: &mut MySqlConnection,
    run_id: &str,
    generation: i64,
) -> Result<bool, StoreError> {
    sqlx::query(
        "update view_generation set run_id = ?, generation = generation + 1 \
         where id = 1 and generation = ?",
    )
    .bind(run_id)
    .bind(generation)
    .execute(connection)
    .await
    .map(|done| done.rows_affected() == 1)
    .map_err(StoreError::query("raise the view generation"))
}

/// The first process of a new platform; another one may have been faster.
async fn insert_first(connection: &mut MySqlConnection, run_id: &str) -> Result<(), StoreError> {
    let inserted =
        sqlx::query("insert into view_generation (id, run_id, generation) values (1, ?, 1)")
            .bind(run_id)
            .execute(connection)
            .await
            .map_err(StoreError::query("create the view generation"));
    match inserted {
        Err(error) if error.duplicate_key().is_none() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}
