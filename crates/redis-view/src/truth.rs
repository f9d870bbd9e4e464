//! The source that views are rebuilt from: the user's coupons in MySQL.

use std::error::Error;

use chrono::{DateTime, Utc};
use coupon::UserId;

use crate::{Change, Cursor, ViewCoupon};

/// Reads coupons from MySQL. Each read is bounded by its request, however many coupons the user has.
pub trait Truth: Send + Sync + 'static {
    type Error: Error + Send + Sync + 'static;
    /// See [`Truth::many`].
    type Pieces: Pieces<Error = Self::Error>;

    /// Returns the user's unused coupons after a position in the list, at most `count`, in the order of [`Cursor`]s
    /// from the latest on, including those whose validity has ended. Without `behind`, starts at the beginning.
    fn listed(
        &self,
        user: UserId,
        behind: Option<Cursor>,
        count: usize,
    ) -> impl Future<Output = Result<Vec<ViewCoupon>, Self::Error>> + Send;

    /// Returns everything that a view is rebuilt from, as of one moment after the call: the user's unused coupons, and
    /// all coupons that changed since `changed_since`, whatever their status. Returns `None` if the user has too many
    /// coupons to read at once.
    fn few(
        &self,
        user: UserId,
        changed_since: DateTime<Utc>,
    ) -> impl Future<Output = Result<Option<Vec<Change>>, Self::Error>> + Send;

    /// Like [`Truth::few`], for users with more coupons: in pieces, all as of one moment after the call.
    fn many(
        &self,
        user: UserId,
        changed_since: DateTime<Utc>,
    ) -> impl Future<Output = Result<Self::Pieces, Self::Error>> + Send;
}

/// The rows of one moment, in pieces.
pub trait Pieces: Send + 'static {
    /// Error of a read. No piece follows it.
    type Error;

    /// Returns the next piece, which may be empty, or `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Change>>, Self::Error>> + Send;
}
