//! A user's coupons in MySQL, for the view: pages in the order of the list, and the rows that a view is rebuilt from.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, UserId};
use mysql_store::{
    Listed, MySqlPool, StoreError, connect,
    user_coupon::UserCoupon,
    user_view::{self, ListPosition, Walk},
};
use redis_view::{Change, Cursor, Pieces, Truth, ViewCoupon};
use runtime::FailPoints;

/// Rows of each status in one read of a rebuild: a few milliseconds for MySQL, and more coupons than most users ever
/// have, so that their views are rebuilt by one read.
const ROWS_MAX: u32 = 500;

/// Reads coupons from MySQL. The fail point `view.before_piece` is before each read of a long list's rebuild, and once
/// more before the first.
pub(crate) struct MySqlViewSource {
    pool: MySqlPool,
    points: FailPoints,
}

impl MySqlViewSource {
    pub(crate) fn new(pool: MySqlPool, points: FailPoints) -> Self {
        Self { pool, points }
    }
}

impl Truth for MySqlViewSource {
    type Error = StoreError;
    type Pieces = Rows;

    async fn listed(
        &self,
        user: UserId,
        behind: Option<Cursor>,
        count: usize,
    ) -> Result<Vec<ViewCoupon>, StoreError> {
        let mut behind = behind.map(list_position);
        let read = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            let mut found = Vec::new();
            while found.len() < count {
                let missing = u32::try_from(count - found.len()).unwrap_or(u32::MAX);
                let status = CouponStatus::Unused;
                let rows = user_view::page(&mut connection, user, status, behind, missing).await?;
                let is_last = rows.len() < missing as usize;
                let last = rows.last().map(|row| row.position(ListPosition::of));
                for row in rows {
                    match row {
                        Listed::Row(row) => found.push(coupon(&row)),
                        Listed::Unreadable(position) => left_out(&[position.id]),
                    }
                }
                // A position that does not move on would be read for ever.
                if is_last || last == behind {
                    break;
                }
                behind = last;
            }
            Ok(found)
        });
        read.await
    }

    async fn few(
        &self,
        user: UserId,
        changed_since: DateTime<Utc>,
    ) -> Result<Option<Vec<Change>>, StoreError> {
        let rows = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            user_view::rows_of_few(&mut connection, user, changed_since, ROWS_MAX).await
        });
        let rows = rows.await?;
        Ok(rows.map(|rows| rows.iter().map(change).collect()))
    }

    async fn many(&self, user: UserId, changed_since: DateTime<Utc>) -> Result<Rows, StoreError> {
        // Before the walk opens its transaction, which MySQL closes after a while.
        self.points.reach("view.before_piece").await.map_err(|_| StoreError::Silent)?;
        let walk = connect::within(Walk::begin(&self.pool, user, changed_since)).await?;
        Ok(Rows { walk, points: self.points.clone() })
    }
}

/// The rest of a walk over a user's rows.
pub(crate) struct Rows {
    walk: Walk,
    points: FailPoints,
}

impl Pieces for Rows {
    type Error = StoreError;

    async fn next(&mut self) -> Result<Option<Vec<Change>>, StoreError> {
        self.points.reach("view.before_piece").await.map_err(|_| StoreError::Silent)?;
        let rows = connect::within(self.walk.next(ROWS_MAX)).await?;
        left_out(&self.walk.unreadable());
        Ok(rows.map(|rows| rows.iter().map(change).collect()))
    }
}

/// Returns the position behind a cursor, where the list continues.
pub(crate) fn list_position(cursor: Cursor) -> ListPosition {
    ListPosition { claimed_at: cursor.claimed_at(), template_id: cursor.template_id, id: cursor.id }
}

/// Returns the cursor of a position.
pub(crate) fn cursor(position: ListPosition) -> Cursor {
    Cursor::of_claim(position.claimed_at, position.template_id, position.id)
}

/// Says which coupons a list lacks, because a value of theirs is damaged. Their users see all others.
fn left_out(coupons: &[CouponId]) {
    if let Some(id) = coupons.first() {
        let why = format!("{} of them, the first is {id}", coupons.len());
        runtime::seldom!("coupons cannot be read and are not listed", why);
    }
}

fn coupon(row: &UserCoupon) -> ViewCoupon {
    ViewCoupon {
        id: row.id,
        template_id: row.template_id,
        claim_no: row.claim_no,
        claim_id: row.claim_id,
        claimed_at: row.claimed_at,
        valid_from: row.valid_from,
        valid_until: row.valid_until,
    }
}

fn change(row: &UserCoupon) -> Change {
    Change { coupon: coupon(row), status: row.status, version: row.version }
}
