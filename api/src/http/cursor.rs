//! Pagination: page sizes and cursors.

use std::{fmt, str::FromStr};

use chrono::DateTime;
use mysql_store::{Listed, user_view::End};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    code::Code,
    http::schemas::{Cursor, Id},
    problem::Problem,
};

/// Default page size, in entries.
const PAGE_DEFAULT: u32 = 20;

/// Largest page size, in entries.
const PAGE_MAX: u32 = 100;

/// A page of a collection.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    /// Cursor of the next page. Null: this is the last page.
    #[schema(value_type = Option<Cursor>, required = true)]
    pub(crate) next_cursor: Option<String>,
    pub(crate) has_more: bool,
    /// Ids of entries that cannot be read, because a value of theirs is damaged. Absent: there is none.
    #[schema(value_type = Vec<Id>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<String>,
}

/// The part of a list that a page shows.
pub(crate) struct Part<T, P> {
    pub(crate) rows: Vec<T>,
    /// Positions of rows that cannot be read.
    pub(crate) unreadable: Vec<P>,
    /// Behind which row the next page begins.
    pub(crate) next: Option<P>,
}

impl<T, P: Clone> Part<T, P> {
    /// Takes the first `limit` rows of a list. A further one shows that there is a next page.
    pub(crate) fn of(
        mut listed: Vec<Listed<T, P>>,
        limit: u32,
        position: impl Fn(&T) -> P,
    ) -> Self {
        let more = listed.len() > limit as usize;
        listed.truncate(limit as usize);
        let next = listed.last().filter(|_| more).map(|last| last.position(position));
        let mut part =
            Self { rows: Vec::with_capacity(listed.len()), unreadable: Vec::new(), next };
        for one in listed {
            match one {
                Listed::Row(row) => part.rows.push(row),
                Listed::Unreadable(position) => part.unreadable.push(position),
            }
        }
        part
    }

    /// Returns the page that shows it: its positions are the entries' ids and the cursor, as they stand.
    pub(crate) fn page<B>(self, shown: impl FnMut(T) -> B) -> Page<B>
    where
        P: ToString,
    {
        let next = self.next.map(|position| position.to_string());
        Page::new(self.rows.into_iter().map(shown).collect(), next).without(self.unreadable)
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct PageParams {
    limit: Option<u32>,
    pub(crate) cursor: Option<String>,
}

/// A position in the lists of expired and of lapsed coupons, as clients see it: `milliseconds.coupon`.
pub(crate) struct EndCursor(pub(crate) End);

/// The text is not a cursor.
#[derive(Debug)]
pub(crate) struct NoCursor;

impl fmt::Display for EndCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.valid_until.timestamp_millis(), self.0.id)
    }
}

impl FromStr for EndCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let (until, id) = text.split_once('.').ok_or(NoCursor)?;
        let until = until
            .parse::<i64>()
            .ok()
            .filter(|ms| *ms >= 0)
            .and_then(DateTime::from_timestamp_millis);
        let valid_until = until.ok_or(NoCursor)?;
        let cursor = Self(End { valid_until, id: id.parse().map_err(|_| NoCursor)? });
        // Accept only the form that we write.
        if cursor.to_string() == text { Ok(cursor) } else { Err(NoCursor) }
    }
}

impl<T> Page<T> {
    pub(crate) fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { data, has_more: next_cursor.is_some(), next_cursor, unreadable: Vec::new() }
    }

    /// Names the entries that cannot be read.
    pub(crate) fn without(self, unreadable: impl IntoIterator<Item = impl ToString>) -> Self {
        let unreadable = unreadable.into_iter().map(|id| id.to_string()).collect();
        Self { unreadable, ..self }
    }
}

impl PageParams {
    pub(crate) fn limit(&self) -> Result<u32, Problem> {
        limit(self.limit)
    }
}

/// Returns the value that a filter asks for, by its word. `filter` names it with its article: "a `state`".
pub(crate) fn one_of<T: Copy>(
    filter: &str,
    asked: Option<&str>,
    all: &[T],
    word: fn(T) -> &'static str,
) -> Result<Option<T>, Problem> {
    let Some(asked) = asked else { return Ok(None) };
    let found = all.iter().copied().find(|one| word(*one) == asked);
    found.map(Some).ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|one| word(*one)).collect();
        Problem::new(Code::InvalidStatus, format!("Use {filter} of {}.", words.join(", ")))
    })
}

/// Checks a requested page size, 1 to 100.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(PAGE_DEFAULT);
    if (1..=PAGE_MAX).contains(&limit) {
        Ok(limit)
    } else {
        Err(Problem::new(Code::InvalidLimit, format!("Use a `limit` of 1 to {PAGE_MAX}.")))
    }
}

/// Parses a cursor that a client sent back.
pub(crate) fn parse<T: std::str::FromStr>(text: Option<&String>) -> Result<Option<T>, Problem> {
    text.map(|text| text.parse())
        .transpose()
        .map_err(|_| Problem::new(Code::InvalidCursor, "Use a `next_cursor` of this collection."))
}
