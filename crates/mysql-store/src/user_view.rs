//! What "my coupons" needs of the truth: pages in the list's order, and the rows of a view's rebuild.
//!
//! Every read is bounded by what it was asked for, however many coupons the user has: `ix_user (user_id, status,
//! claimed_at, template_id, id)` has each status in the list's order, `ix_ends (user_id, status, valid_until, id)` in
//! that of the ends.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use sqlx::{MySqlConnection, MySqlPool};

use crate::{
    StoreError, connect,
    datetime::datetime,
    user_coupon::{self, UserCoupon},
};

/// The statuses, in the order in which a rebuild reads them.
const STATUSES: [CouponStatus; 3] =
    [CouponStatus::Unused, CouponStatus::Used, CouponStatus::Expired];

/// The latest time that the server can be asked about: the end of the year 9999.
const LATEST_MS: i64 = 253_402_300_799_999;

/// A place in the list of a user's coupons: the latest claim is the first, and of one millisecond the coupon with the
/// highest template and id. A view orders the digits of ids where this orders the numbers: ids have 19 digits, so both are one
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// When the coupon there was claimed.
    pub claimed_at: DateTime<Utc>,
    /// Its template.
    pub template_id: TemplateId,
    /// The coupon.
    pub id: CouponId,
}

/// A place in the list of what has ended: the latest end is the first, and of one millisecond the highest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// When the coupon there ended.
    pub valid_until: DateTime<Utc>,
    /// The coupon.
    pub id: CouponId,
}

impl Place {
    /// Where the coupon is.
    pub fn of(coupon: &UserCoupon) -> Self {
        let UserCoupon { claimed_at, template_id, id, .. } = *coupon;
        Self { claimed_at, template_id, id }
    }
}

impl End {
    /// Where the coupon is.
    pub fn of(coupon: &UserCoupon) -> Self {
        Self { valid_until: coupon.valid_until, id: coupon.id }
    }
}

/// Coupons of the user in this status behind a place of the list, at most `limit`, in the list's order; `behind` absent:
/// from its beginning.
///
/// An unused coupon comes back whether or not it has ended meanwhile; see [`CouponStatus::at`].
///
/// # Errors
/// The statement fails.
pub async fn page(
    connection: &mut MySqlConnection,
    user: UserId,
    status: CouponStatus,
    behind: Option<Place>,
    limit: u32,
) -> Result<Vec<UserCoupon>, StoreError> {
    let status = status.code();
    let rows = match behind {
        None => {
            sqlx::query(
                "select * from user_coupon force index (ix_user) where user_id = ? and status = ? \
                 order by claimed_at desc, template_id desc, id desc limit ?",
            )
            .bind(user.0)
            .bind(status)
            .bind(limit)
            .fetch_all(connection)
            .await
        }
        Some(Place { claimed_at, template_id, id }) => {
            let claimed_at = datetime(claimed_at.min(latest()));
            // Each part is a bounded backward read of the index, which a comparison of all three columns at once is not;
            // only their merge is sorted.
            sqlx::query(
                "(select * from user_coupon force index (ix_user) where user_id = ? and status = ? \
                  and claimed_at = ? and template_id = ? and id < ? order by id desc limit ?) union all \
                 (select * from user_coupon force index (ix_user) where user_id = ? and status = ? \
                  and claimed_at = ? and template_id < ? order by template_id desc, id desc limit ?) union all \
                 (select * from user_coupon force index (ix_user) where user_id = ? and status = ? \
                  and claimed_at < ? order by claimed_at desc, template_id desc, id desc limit ?) \
                 order by claimed_at desc, template_id desc, id desc limit ?",
            )
            .bind(user.0)
            .bind(status)
            .bind(claimed_at)
            .bind(template_id.0)
            .bind(id.0)
            .bind(limit)
            .bind(user.0)
            .bind(status)
            .bind(claimed_at)
            .bind(template_id.0)
            .bind(limit)
            .bind(user.0)
            .bind(status)
            .bind(claimed_at)
            .bind(limit)
            .bind(limit)
            .fetch_all(connection)
            .await
        }
    };
    let rows = rows.map_err(StoreError::query("read a page of coupons"))?;
    rows.iter().map(user_coupon::from_row).collect()
}

/// Coupons of the user whose validity has ended unused, flipped or not, behind an end, at most `limit`, the latest end first;
/// `behind` absent: from the latest.
///
/// A row that is due but not flipped yet comes back as it is written; see [`CouponStatus::at`].
///
/// # Errors
/// The statement fails.
pub async fn expired_page(
    connection: &mut MySqlConnection,
    user: UserId,
    behind: Option<End>,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<Vec<UserCoupon>, StoreError> {
    let behind = behind.unwrap_or(End { valid_until: latest(), id: CouponId(i64::MAX) });
    let until = datetime(behind.valid_until.min(latest()));
    let mut query = sqlx::query(
        "(select * from user_coupon force index (ix_ends) where user_id = ? and status = ? \
          and valid_until = ? and id < ? and valid_until <= ? order by id desc limit ?) union all \
         (select * from user_coupon force index (ix_ends) where user_id = ? and status = ? \
          and valid_until < ? and valid_until <= ? order by valid_until desc, id desc limit ?) union all \
         (select * from user_coupon force index (ix_ends) where user_id = ? and status = ? \
          and valid_until = ? and id < ? and valid_until <= ? order by id desc limit ?) union all \
         (select * from user_coupon force index (ix_ends) where user_id = ? and status = ? \
          and valid_until < ? and valid_until <= ? order by valid_until desc, id desc limit ?) \
         order by valid_until desc, id desc limit ?",
    );
    // What was flipped has ended, whatever our clock says.
    for (status, ended_by) in [(CouponStatus::Expired, latest()), (CouponStatus::Unused, now)] {
        let (status, ended_by) = (status.code(), datetime(ended_by));
        query = query.bind(user.0).bind(status).bind(until).bind(behind.id.0);
        query = query.bind(ended_by).bind(limit);
        query = query.bind(user.0).bind(status).bind(until).bind(ended_by).bind(limit);
    }
    let rows = query.bind(limit).fetch_all(connection).await;
    let rows = rows.map_err(StoreError::query("read a page of expired coupons"))?;
    rows.iter().map(user_coupon::from_row).collect()
}

/// The rows of a view's rebuild, as of one moment: the user's unused coupons, and every one changed since `changed_since`,
/// whatever its status. Absent: the user has more than `most` of one status; see [`Walk`].
///
/// Without what changed a consumer that lags would bring a used coupon back: it applies the old insert, and the rebuild
/// knows of no newer version.
///
/// # Errors
/// The statement fails.
pub async fn rows_of_few(
    connection: &mut MySqlConnection,
    user: UserId,
    changed_since: DateTime<Utc>,
    most: u32,
) -> Result<Option<Vec<UserCoupon>>, StoreError> {
    let part = "(select * from user_coupon force index (ix_user) \
                where user_id = ? and status = ? limit ?)";
    // One statement, so all of it is of one moment.
    let mut query = sqlx::query(sqlx::AssertSqlSafe([part; STATUSES.len()].join(" union all ")));
    for status in STATUSES {
        query = query.bind(user.0).bind(status.code()).bind(most.saturating_add(1));
    }
    let rows = query.fetch_all(connection).await;
    let rows = rows.map_err(StoreError::query("read a user's coupons"))?;
    let rows = rows.iter().map(user_coupon::from_row).collect::<Result<Vec<_>, _>>()?;
    let mut counts: HashMap<u8, u32> = HashMap::new();
    for row in &rows {
        let count = counts.entry(row.status.code()).or_default();
        *count += 1;
        if *count > most {
            return Ok(None);
        }
    }
    Ok(Some(wanted(rows, changed_since)))
}

/// The same rows of a user who has more, piece by piece, all as of the moment at which it began: a read-only transaction
/// with a snapshot, on a connection of its own.
///
/// Pieces that are each read as of their own moment would not do: a coupon claimed after another was used could be among
/// them, and the other still as unused, so that a view would know the later change and not the earlier.
#[derive(Debug)]
pub struct Walk {
    transaction: connect::Transaction,
    user: UserId,
    changed_since: DateTime<Utc>,
    /// The statuses that are not read to their end, and where the first of them is.
    statuses: &'static [CouponStatus],
    behind: Option<Place>,
}

impl Walk {
    /// Begins one.
    ///
    /// # Errors
    /// No connection was free in time, or a statement fails.
    pub async fn begin(
        pool: &MySqlPool,
        user: UserId,
        changed_since: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        let transaction = connect::begin_snapshot(pool).await?;
        Ok(Self { transaction, user, changed_since, statuses: &STATUSES, behind: None })
    }

    /// What is wanted of the next `limit` rows; it may be nothing. Absent: all are read.
    ///
    /// # Errors
    /// The statement fails; the walk cannot go on.
    pub async fn next(&mut self, limit: u32) -> Result<Option<Vec<UserCoupon>>, StoreError> {
        let Some((&status, rest)) = self.statuses.split_first() else { return Ok(None) };
        let rows = page(&mut self.transaction, self.user, status, self.behind, limit).await?;
        self.behind = rows.last().map(Place::of);
        if rows.len() < limit as usize {
            (self.statuses, self.behind) = (rest, None);
        }
        Ok(Some(wanted(rows, self.changed_since)))
    }
}

/// Without what has left the list so long ago that nothing can bring it back.
fn wanted(mut rows: Vec<UserCoupon>, changed_since: DateTime<Utc>) -> Vec<UserCoupon> {
    rows.retain(|row| row.status == CouponStatus::Unused || row.changed_at >= changed_since);
    rows
}

fn latest() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(LATEST_MS).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
