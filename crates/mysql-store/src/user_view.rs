//! What "my coupons" needs of the truth: the rows of a view's rebuild, and the pages that no view holds.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, UserId};
use sqlx::MySqlConnection;

use crate::{
    StoreError,
    datetime::datetime,
    user_coupon::{self, UserCoupon},
};

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
