//! Reads for "my coupons": pages in list order, and the rows for a view's rebuild.
//!
//! Each read is bounded by its request, however many coupons the user has: `ix_user (user_id, status, claimed_at,
//! template_id, id)` has each status in list order, `ix_ends (user_id, status, valid_until, id)` in the order of the
//! ends.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use sqlx::{FromRow as _, MySqlConnection, MySqlPool, Row as _, mysql::MySqlRow};

use crate::{
    StoreError, connect,
    coupons::user_coupon::UserCoupon,
    datetime::datetime,
    listed::{Listed, listed},
};

/// The statuses, in the order in which a rebuild reads them.
const STATUSES: [CouponStatus; 6] = CouponStatus::ALL;

/// Latest time that the server accepts: the end of the year 9999.
const LATEST_MS: i64 = 253_402_300_799_999;

/// A position in the list of a user's coupons: the latest claim first and, within a millisecond, the highest template
/// and id. A view orders ids by their digits, this list by their numbers. Both orders are the same, because ids have 19
/// digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPosition {
    /// Time of the claim of the coupon at this position.
    pub claimed_at: DateTime<Utc>,
    pub template_id: TemplateId,
    pub id: CouponId,
}

/// A list of coupons that a deadline ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// Coupons whose validity ended unused.
    Expired,
    /// Coupons whose hold ended unconfirmed.
    Lapsed,
}

/// A position in a list of overdue coupons: the latest end first and, within a millisecond, the highest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// End of the coupon at this position.
    pub valid_until: DateTime<Utc>,
    pub id: CouponId,
}

impl ListPosition {
    /// Position of the coupon.
    pub fn of(coupon: &UserCoupon) -> Self {
        let UserCoupon { claimed_at, template_id, id, .. } = *coupon;
        Self { claimed_at, template_id, id }
    }

    /// A time that cannot be read sorts behind every other one.
    fn of_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let template_id = TemplateId(row.try_get("template_id")?);
        let id = CouponId(row.try_get("id")?);
        Ok(Self { claimed_at: time_of(row, "claimed_at"), template_id, id })
    }
}

impl Overdue {
    /// Status of these coupons.
    pub fn status(self) -> CouponStatus {
        match self {
            Self::Expired => CouponStatus::Expired,
            Self::Lapsed => CouponStatus::Lapsed,
        }
    }

    /// Stored status of those that are due and not flipped yet.
    fn before(self) -> CouponStatus {
        match self {
            Self::Expired => CouponStatus::Unused,
            Self::Lapsed => CouponStatus::Held,
        }
    }
}

impl End {
    /// Position of the coupon.
    pub fn of(coupon: &UserCoupon) -> Self {
        Self { valid_until: coupon.valid_until, id: coupon.id }
    }

    fn of_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self { valid_until: time_of(row, "valid_until"), id: CouponId(row.try_get("id")?) })
    }
}

fn time_of(row: &MySqlRow, column: &str) -> DateTime<Utc> {
    row.try_get(column).unwrap_or(DateTime::UNIX_EPOCH)
}

/// Returns the user's coupons of this status after a position in the list, at most `limit`, in list order. Without
/// `behind`, starts at the beginning.
///
/// Unused coupons are included even if they have ended meanwhile; see [`CouponStatus::at`]. Those that cannot be read are
/// named.
pub async fn page(
    connection: &mut MySqlConnection,
    user: UserId,
    status: CouponStatus,
    behind: Option<ListPosition>,
    limit: u32,
) -> Result<Vec<Listed<UserCoupon, ListPosition>>, StoreError> {
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
        Some(ListPosition { claimed_at, template_id, id }) => {
            let claimed_at = datetime(claimed_at.min(latest()));
            // Each part is a bounded backward read of the index; one comparison of all three columns would not be. Only
            // the merged parts are sorted.
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
    rows.and_then(|rows| listed(&rows, UserCoupon::from_row, ListPosition::of_row))
        .map_err(StoreError::query("read a page of coupons"))
}

/// Returns the user's overdue coupons, flipped or not, after a position, at most `limit`, the latest end first. Without
/// `behind`, starts at the latest.
///
/// A row that is due but not flipped yet has its stored status; see [`CouponStatus::at`]. A flip keeps its position.
pub async fn overdue_page(
    connection: &mut MySqlConnection,
    user: UserId,
    list: Overdue,
    behind: Option<End>,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<Vec<Listed<UserCoupon, End>>, StoreError> {
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
    // Flipped coupons have ended, whatever the caller's clock says.
    for (status, ended_by) in [(list.status(), latest()), (list.before(), now)] {
        let status = status.code();
        let ended_by = datetime(ended_by);
        query = query.bind(user.0).bind(status).bind(until).bind(behind.id.0);
        query = query.bind(ended_by).bind(limit);
        query = query.bind(user.0).bind(status).bind(until).bind(ended_by).bind(limit);
    }
    let rows = query.bind(limit).fetch_all(connection).await;
    rows.and_then(|rows| listed(&rows, UserCoupon::from_row, End::of_row))
        .map_err(StoreError::query("read a page of overdue coupons"))
}

/// Returns the rows for a view's rebuild, as of one moment: the user's unused coupons, and all coupons changed since
/// `changed_since`, whatever their status. Returns `None` if the user has more than `most` of one status, or one that
/// cannot be read; then use [`Walk`].
///
/// Without the changed coupons, a lagging consumer could bring a used coupon back: it would apply the old insert to a
/// rebuilt view that knows no newer version.
pub async fn rows_of_few(
    connection: &mut MySqlConnection,
    user: UserId,
    changed_since: DateTime<Utc>,
    most: u32,
) -> Result<Option<Vec<UserCoupon>>, StoreError> {
    let part = "(select * from user_coupon force index (ix_user) \
                where user_id = ? and status = ? limit ?)";
    // One statement, so that all rows are of one moment.
    let mut query = sqlx::query_as(sqlx::AssertSqlSafe([part; STATUSES.len()].join(" union all ")));
    for status in STATUSES {
        query = query.bind(user.0).bind(status.code()).bind(most.saturating_add(1));
    }
    let rows: Result<Vec<UserCoupon>, _> = query.fetch_all(connection).await;
    let rows = match rows.map_err(StoreError::query("read a user's coupons")) {
        Err(error) if error.is_unreadable() => return Ok(None),
        rows => rows?,
    };
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

/// Reads the rows for a rebuild in pieces, for users with more coupons. All rows are as of the moment at which it
/// began: it is a read-only transaction with a snapshot, on a connection of its own.
///
/// Pieces of different moments would be wrong: they could include a coupon claimed after the use of another one, and
/// show that other one as unused. The view would know the later change without the earlier one.
#[derive(Debug)]
pub struct Walk {
    transaction: connect::Transaction,
    user: UserId,
    changed_since: DateTime<Utc>,
    /// The statuses that are not read completely; the position is in the first of them.
    statuses: &'static [CouponStatus],
    behind: Option<ListPosition>,
    /// The coupons that could not be read so far.
    unreadable: Vec<CouponId>,
}

impl Walk {
    /// Begins a walk.
    ///
    /// # Errors
    /// No connection was free in time, or a statement fails.
    pub async fn begin(
        pool: &MySqlPool,
        user: UserId,
        changed_since: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        let transaction = connect::begin_snapshot(pool).await?;
        Ok(Self {
            transaction,
            user,
            changed_since,
            statuses: &STATUSES,
            behind: None,
            unreadable: Vec::new(),
        })
    }

    /// Returns the coupons that could not be read since the last call.
    pub fn unreadable(&mut self) -> Vec<CouponId> {
        std::mem::take(&mut self.unreadable)
    }

    /// Reads the next `limit` rows and returns those that a rebuild needs, perhaps none; `None` at the end. Leaves out those
    /// that cannot be read.
    ///
    /// # Errors
    /// The statement fails. The walk cannot continue.
    pub async fn next(&mut self, limit: u32) -> Result<Option<Vec<UserCoupon>>, StoreError> {
        let Some((&status, rest)) = self.statuses.split_first() else { return Ok(None) };
        let rows = page(&mut self.transaction, self.user, status, self.behind, limit).await?;
        self.behind = rows.last().map(|row| row.position(ListPosition::of));
        if rows.len() < limit as usize {
            (self.statuses, self.behind) = (rest, None);
        }
        let mut read = Vec::with_capacity(rows.len());
        for one in rows {
            match one {
                Listed::Row(row) => read.push(row),
                Listed::Unreadable(position) => self.unreadable.push(position.id),
            }
        }
        Ok(Some(wanted(read, self.changed_since)))
    }
}

/// Removes coupons that left the list so long ago that no replayed change can restore them.
fn wanted(mut rows: Vec<UserCoupon>, changed_since: DateTime<Utc>) -> Vec<UserCoupon> {
    rows.retain(|row| row.status == CouponStatus::Unused || row.changed_at >= changed_since);
    rows
}

fn latest() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(LATEST_MS).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
