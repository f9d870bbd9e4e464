//! What a view is made from: the user's coupons where they are true, which is MySQL.

use std::error::Error;

use chrono::{DateTime, Utc};
use coupon::UserId;

use crate::{Change, Cursor, ViewCoupon};

/// Reads the truth. Each read is bounded by what it was asked for, however many coupons the user has.
pub trait Truth: Send + Sync + 'static {
    /// Why a read fails.
    type Error: Error + Send + Sync + 'static;
    /// See [`Truth::many`].
    type Pieces: Pieces<Error = Self::Error>;

    /// The user's unused coupons behind a place of the list, at most `count`, in the order of [`Cursor`]s from the latest on,
    /// whether or not they have ended; `behind` absent: from the beginning.
    fn listed(
        &self,
        user: UserId,
        behind: Option<Cursor>,
        count: usize,
    ) -> impl Future<Output = Result<Vec<ViewCoupon>, Self::Error>> + Send;

    /// Everything that a view is rebuilt from, as of one moment from the call on: the user's unused coupons, and every one
    /// that changed since, whatever its status. Absent: the user has too many coupons to be read at once.
    fn few(
        &self,
        user: UserId,
        changed_since: DateTime<Utc>,
    ) -> impl Future<Output = Result<Option<Vec<Change>>, Self::Error>> + Send;

    /// The same of a user who has more, in pieces, all of them as of one moment from the call on.
    fn many(
        &self,
        user: UserId,
        changed_since: DateTime<Utc>,
    ) -> impl Future<Output = Result<Self::Pieces, Self::Error>> + Send;
}

/// Rows of one moment, some at a time.
pub trait Pieces: Send + 'static {
    /// Why a read fails; then no piece follows.
    type Error;

    /// The next of them, perhaps none; absent: these were all.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Change>>, Self::Error>> + Send;
}
