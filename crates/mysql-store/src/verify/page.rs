//! Rows that are read one by one, so that one which cannot be read hides no other.

use std::fmt;

use sqlx::{Row, error::UnexpectedNullError, mysql::MySqlRow};

use crate::{StoreError, templates::readable::Readable};

/// A row with a value that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow<K> {
    pub key: K,
    /// The table in a word, and the key: `coupon 7`.
    pub row: String,
    /// The column, and what is wrong with it.
    pub why: String,
}

/// All rows that were asked for.
pub type Rows<T, K> = Readable<T, UnreadableRow<K>>;

/// Some rows in the order of their key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, K> {
    /// Those that can be read.
    pub rows: Vec<T>,
    pub unreadable: Vec<UnreadableRow<K>>,
    /// The key at which the next page begins; `None` at the end.
    pub next: Option<K>,
}

impl<T, K> Page<T, K> {
    /// How many rows there are, readable or not.
    pub fn size(&self) -> usize {
        self.rows.len() + self.unreadable.len()
    }
}

/// How the rows of a table are read and named.
pub(super) struct Reading<T, K> {
    pub(super) read: fn(&MySqlRow) -> Result<T, sqlx::Error>,
    pub(super) key: fn(&MySqlRow) -> Result<K, sqlx::Error>,
    /// The table in a word, and the key.
    pub(super) name: fn(&K) -> String,
}

impl<T, K> Reading<T, K> {
    pub(super) fn rows(
        &self,
        operation: &'static str,
        rows: Result<Vec<MySqlRow>, sqlx::Error>,
    ) -> Result<Rows<T, K>, StoreError> {
        let unreadable = |row: &MySqlRow, error: sqlx::Error| {
            let key = (self.key)(row)?;
            Ok(UnreadableRow { row: (self.name)(&key), key, why: why(error) })
        };
        rows.and_then(|rows| Rows::named(&rows, self.read, unreadable))
            .map_err(StoreError::query(operation))
    }

    /// Like [`Self::rows`], in the order of their keys. `after` returns the key behind another.
    pub(super) fn page(
        &self,
        operation: &'static str,
        rows: Result<Vec<MySqlRow>, sqlx::Error>,
        after: fn(K) -> Option<K>,
    ) -> Result<Page<T, K>, StoreError> {
        let last = match &rows {
            Ok(rows) => rows.last().map(self.key).transpose(),
            Err(_) => Ok(None),
        };
        let next = last.map_err(StoreError::query(operation))?.and_then(after);
        let Rows { rows, unreadable } = self.rows(operation, rows)?;
        Ok(Page { rows, unreadable, next })
    }
}

/// The key of a row that is named by its `id`.
pub(super) fn id(row: &MySqlRow) -> Result<i64, sqlx::Error> {
    row.try_get("id")
}

/// The id behind this one, or `None` if it is the last that there can be.
pub(super) fn after_id(id: i64) -> Option<i64> {
    id.checked_add(1)
}

/// The key of two numbers behind this one, or `None` if it is the last that there can be.
pub(super) fn after_pair(pair: (i64, i64)) -> Option<(i64, i64)> {
    let (first, second) = pair;
    match second.checked_add(1) {
        Some(second) => Some((first, second)),
        None => Some((first.checked_add(1)?, i64::MIN)),
    }
}

/// All that the driver keeps of the error of a code that it converts.
const UNPRINTABLE: &str = "unprintable error";

/// Why a row cannot be read: the column, and what is wrong with it.
fn why(error: sqlx::Error) -> String {
    match error {
        sqlx::Error::ColumnDecode { index, source } if source.is::<UnexpectedNullError>() => {
            format!("{} is null or a zero time", index.trim_matches('"'))
        }
        sqlx::Error::ColumnDecode { index, source } => {
            let column = index.trim_matches('"');
            match source.to_string() {
                said if said.starts_with(UNPRINTABLE) => format!("{column} has an unknown value"),
                said => format!("{column}: {said}"),
            }
        }
        error => error.to_string(),
    }
}

impl<K> fmt::Display for UnreadableRow<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.row, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_behind_the_last_key_that_there_can_be() {
        assert_eq!(after_pair((7, 1)), Some((7, 2)));
        assert_eq!(after_pair((7, i64::MAX)), Some((8, i64::MIN)));
        assert_eq!(after_pair((i64::MAX, i64::MAX)), None);
    }
}
