//! A page of "my coupons", from the view, or from MySQL by the same rule.

use std::{cmp::Ordering, fmt, str::FromStr};

use chrono::{DateTime, Utc};
use coupon::{CouponId, TemplateId, UserId};
use thiserror::Error;

use crate::{ViewCoupon, ViewError, ViewStore, entry};

/// Largest number of members that one call examines. Coupons whose validity has ended are skipped until they are
/// flipped, and a script blocks the server. If the limit is reached, the page may be short and still have a next page.
pub(crate) const LOOKS_MAX: usize = 500;

/// Request for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Largest number of coupons, from 1.
    pub limit: usize,
    /// Position after which the page begins; `None` for the first page.
    pub cursor: Option<Cursor>,
    /// A coupon that the answer must know: that of the caller's own claim.
    pub after: Option<CouponId>,
    /// The caller's clock. A coupon is shown while `valid_until` is later.
    pub now: DateTime<Utc>,
}

/// Some of a user's usable coupons, the latest claim first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub coupons: Vec<ViewCoupon>,
    /// Position after which the next page begins; `None` on the last page.
    pub next: Option<Cursor>,
}

/// The view's answer to a page request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageAnswer {
    Page(Page),
    /// The view is absent or not whole: rebuild it, answer from MySQL.
    Cold,
    /// The view does not know [`PageRequest::after`] yet: answer from MySQL.
    Unknown,
}

/// A position in a user's list, at a coupon. It stays valid while coupons come and go. The order is that of the view:
/// by the time of the claim and, within one millisecond, by the bytes of `template_coupon`. Its text is opaque to
/// clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    score: i64,
    pub template_id: TemplateId,
    /// The coupon, which may have left the list.
    pub id: CouponId,
}

/// The text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use the cursor of the page before, unchanged")]
pub struct CursorError;

impl ViewStore {
    /// Reads a page of the user's coupons, if the view can be trusted.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn page(&self, user: UserId, request: &PageRequest) -> Result<PageAnswer, ViewError> {
        let mut call = self.call("read a page", user).await?;
        let (score, member) = match &request.cursor {
            Some(cursor) => (cursor.score.to_string(), cursor.member()),
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

pub(crate) fn read_page(parts: &[String]) -> Result<Page, ViewError> {
    let unreadable = || ViewError::unreadable(format!("view_page answered {parts:?}"));
    let [score, member, entries @ ..] = parts else { return Err(unreadable()) };
    let next = match (score.as_str(), member.as_str()) {
        ("", "") => None,
        (score, member) => {
            let score = score.parse().map_err(|_| unreadable())?;
            Some(Cursor::of_parts(score, member).ok_or_else(unreadable)?)
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
    /// Position of a coupon.
    pub fn at(coupon: &ViewCoupon) -> Self {
        Self { score: coupon.score(), template_id: coupon.template_id, id: coupon.id }
    }

    /// Position of a coupon that was claimed then.
    pub fn of_claim(claimed_at: DateTime<Utc>, template_id: TemplateId, id: CouponId) -> Self {
        Self { score: claimed_at.timestamp_millis(), template_id, id }
    }

    /// Time of the claim at this position, or the end of time if the position cannot be that of a coupon.
    pub fn claimed_at(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.score).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    fn of_parts(score: i64, member: &str) -> Option<Self> {
        let (template, id) = member.split_once('_')?;
        let cursor = Self { score, template_id: template.parse().ok()?, id: id.parse().ok()? };
        // Accept only the form that we write: `07` and `7` would be two positions.
        (cursor.member() == member).then_some(cursor)
    }

    fn member(&self) -> String {
        entry::member(self.template_id, self.id)
    }
}

impl PartialOrd for Cursor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cursor {
    fn cmp(&self, other: &Self) -> Ordering {
        // Most cursors already differ by time.
        self.score.cmp(&other.score).then_with(|| self.member().cmp(&other.member()))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.score, self.member())
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (score, member) = text.split_once('.').ok_or(CursorError)?;
        let score: i64 = score.parse().map_err(|_| CursorError)?;
        let cursor = Self::of_parts(score, member).ok_or(CursorError)?;
        if cursor.to_string() == text && score >= 0 { Ok(cursor) } else { Err(CursorError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_the_wire_and_nothing_else_is_one() {
        let cursor =
            Cursor { score: 1_700_000_000_000, template_id: TemplateId(1), id: CouponId(23) };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", ".", "1.2", "1._2", "1.2_", "-1.1_2", "1.01_2", "+1.1_2", "1.1_2_3", "x"] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text:?}");
        }
    }
}
