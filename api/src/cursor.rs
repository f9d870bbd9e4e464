//! Pages: how many, and from where on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{openapi::Cursor, problem::Problem};

/// Entries of a page that nobody asked a size for.
const PAGE_DEFAULT: u32 = 20;

/// Entries of the largest page.
const PAGE_MAX: u32 = 100;

/// A page of a collection.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    /// Where the next page begins; null: this is the last one.
    #[schema(value_type = Option<Cursor>, required = true)]
    pub(crate) next_cursor: Option<String>,
    pub(crate) has_more: bool,
}

/// What a client asks of a page.
#[derive(Debug, Deserialize)]
pub(crate) struct PageParams {
    limit: Option<u32>,
    pub(crate) cursor: Option<String>,
}

impl<T> Page<T> {
    pub(crate) fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { data, has_more: next_cursor.is_some(), next_cursor }
    }
}

impl PageParams {
    pub(crate) fn limit(&self) -> Result<u32, Problem> {
        limit(self.limit)
    }
}

/// A page's size, 1 to 100.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(PAGE_DEFAULT);
    if (1..=PAGE_MAX).contains(&limit) {
        Ok(limit)
    } else {
        Err(Problem::invalid("INVALID_LIMIT", format!("Use a `limit` of 1 to {PAGE_MAX}.")))
    }
}

/// A cursor that a client sent back.
pub(crate) fn parse<T: std::str::FromStr>(text: Option<&String>) -> Result<Option<T>, Problem> {
    text.map(|text| text.parse()).transpose().map_err(|_| {
        Problem::malformed("INVALID_CURSOR", "Use a `next_cursor` of this collection.")
    })
}
