//! A page of "my coupons": from the view, or cut the same way from rows of MySQL.

use std::{fmt, str::FromStr};

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use thiserror::Error;

use crate::{Change, ViewCoupon, ViewError, ViewStore, entry};

/// Members one call looks at, at most: coupons whose validity has ended are passed over until they
/// are flipped, and a script blocks the server. The page may then be short, and has a next one.
const LOOKS_MAX: usize = 500;

/// What is asked of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// How many coupons at most, from 1.
    pub limit: usize,
    /// Where the page before ended; absent: the first page.
    pub cursor: Option<Cursor>,
    /// A coupon that the answer must know of: the caller's own claim.
    pub after: Option<CouponId>,
    /// The caller's clock: a coupon is shown while `valid_until` is later.
    pub now: DateTime<Utc>,
}

/// Some of a user's usable coupons, the latest claim first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The coupons.
    pub coupons: Vec<ViewCoupon>,
    /// Where the next page begins; absent: this is the last.
    pub next: Option<Cursor>,
}

/// The view's answer to a page request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageAnswer {
    /// The page.
    Page(Page),
    /// The view is not there or not whole: rebuild it, answer from MySQL.
    Cold,
    /// The view does not know [`PageRequest::after`] yet: answer from MySQL.
    Unknown,
}

/// A place in a user's list, between two coupons; it stays where it is while coupons come and go.
/// Its text is opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    score: i64,
    member: String,
}

/// A text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use the cursor of the page before, unchanged")]
pub struct CursorError;

impl ViewStore {
    /// A page of the user's coupons, if the view can be trusted.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn page(&self, user: UserId, request: &PageRequest) -> Result<PageAnswer, ViewError> {
        let mut call = self.call("read a page", user).await?;
        let (score, member) = match &request.cursor {
            Some(cursor) => (cursor.score.to_string(), cursor.member.clone()),
            None => (String::new(), String::new()),
        };
        call.arguments = vec![
            call.generation.to_string(),
            request.now.timestamp_millis().to_string(),
            request.limit.max(1).to_string(),
            LOOKS_MAX.max(request.limit).to_string(),
            request.after.map(|id| id.to_string()).unwrap_or_default(),
            score,
            member,
        ];
        let answer: Vec<String> = call.run(&self.inner.scripts.page).await?;
        match answer.split_first() {
            Some((code, rest)) if code == "1" => read_page(rest)
                .map(PageAnswer::Page)
                .map_err(|error| ViewError::Damaged { user, what: error.to_string() }),
            Some((code, _)) if code == "0" => Ok(PageAnswer::Cold),
            Some((code, _)) if code == "2" => Ok(PageAnswer::Unknown),
            _ => Err(ViewError::unreadable(format!("view_page answered {answer:?}"))),
        }
    }
}

impl Page {
    /// The page that a whole view of these rows would give.
    pub fn of_rows(rows: &[Change], request: &PageRequest) -> Self {
        let usable = |row: &&Change| {
            row.status.at(row.coupon.valid_until, request.now) == CouponStatus::Unused
        };
        let mut coupons: Vec<_> =
            rows.iter().filter(usable).map(|row| (Cursor::at(&row.coupon), row.coupon)).collect();
        coupons.sort_unstable_by(|(left, _), (right, _)| right.place().cmp(&left.place()));
        if let Some(cursor) = &request.cursor {
            coupons.retain(|(at, _)| at.place() < cursor.place());
        }
        let limit = request.limit.max(1);
        let next = (coupons.len() > limit).then(|| coupons[limit - 1].0.clone());
        coupons.truncate(limit);
        Self { coupons: coupons.into_iter().map(|(_, coupon)| coupon).collect(), next }
    }
}

pub(crate) fn read_page(parts: &[String]) -> Result<Page, ViewError> {
    let unreadable = || ViewError::unreadable(format!("view_page answered {parts:?}"));
    let [score, member, entries @ ..] = parts else { return Err(unreadable()) };
    let next = match (score.as_str(), member.as_str()) {
        ("", "") => None,
        (score, member) => {
            let score = score.parse().map_err(|_| unreadable())?;
            Some(Cursor { score, member: member.to_owned() })
        }
    };
    let (pairs, rest) = entries.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(unreadable());
    }
    let coupons =
        pairs.iter().map(|[id, text]| entry::listed(id, text)).collect::<Result<_, _>>()?;
    Ok(Page { coupons, next })
}

impl Cursor {
    fn at(coupon: &ViewCoupon) -> Self {
        Self { score: coupon.score(), member: coupon.member() }
    }

    /// The order of the list: by score, then by the member's bytes.
    fn place(&self) -> (i64, &[u8]) {
        (self.score, self.member.as_bytes())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.score, self.member)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (score, member) = text.split_once('.').ok_or(CursorError)?;
        let (template, id) = member.split_once('_').ok_or(CursorError)?;
        let score: i64 = score.parse().map_err(|_| CursorError)?;
        let template: TemplateId = template.parse().map_err(|_| CursorError)?;
        let id: CouponId = id.parse().map_err(|_| CursorError)?;
        let cursor = Self { score, member: format!("{template}_{id}") };
        // Only the form that we write: `07` and `7` would be two places.
        if cursor.to_string() == text && score >= 0 { Ok(cursor) } else { Err(CursorError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_the_wire_and_nothing_else_is_one() {
        let cursor = Cursor { score: 1_700_000_000_000, member: "1_23".to_owned() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", ".", "1.2", "1._2", "1.2_", "-1.1_2", "1.01_2", "+1.1_2", "1.1_2_3", "x"] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text:?}");
        }
    }
}
