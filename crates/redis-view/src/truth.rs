//! The source that views are rebuilt from: the user's coupons in MySQL.

use std::error::Error;

use chrono::{DateTime, Utc};
use coupon::UserId;

use crate::{Change, Cursor, Page, PageRequest, ViewCoupon, page::LOOKS_MAX};

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

impl Page {
    /// Reads the page from MySQL that a whole view of the same coupons would give, by the same rule: coupon by coupon
    /// until the page is full, [`LOOKS_MAX`] were examined, or none is left.
    pub(crate) async fn of_truth<T: Truth>(
        truth: &T,
        user: UserId,
        request: &PageRequest,
    ) -> Result<Self, T::Error> {
        let limit = request.limit.max(1);
        let looks = LOOKS_MAX.max(limit);
        let mut page = Self { coupons: Vec::new(), next: None };
        let mut behind = request.cursor;
        let mut looked = 0;
        let mut wanted = limit;
        loop {
            // One more than needed, to learn whether more coupons are left.
            let found = truth.listed(user, behind, wanted + 1).await?;
            for coupon in found.iter().take(wanted) {
                if page.coupons.len() == limit {
                    break;
                }
                looked += 1;
                behind = Some(Cursor::at(coupon));
                if coupon.valid_until > request.now {
                    page.coupons.push(*coupon);
                }
            }
            let is_left = found.last().is_some_and(|last| Some(Cursor::at(last)) != behind);
            if !is_left {
                return Ok(page);
            }
            if page.coupons.len() == limit || looked == looks {
                page.next = behind;
                return Ok(page);
            }
            // Some had ended. One more read reaches the limit of examined coupons.
            wanted = looks - looked;
        }
    }
}
