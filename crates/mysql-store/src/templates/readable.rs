//! Rows, some of which this version may not be able to read: those of a newer version, or changed by hand. One such row
//! must not keep the others from being worked on.

use coupon::TemplateId;
use sqlx::{Row, mysql::MySqlRow};

use crate::listed::{Listed, row_or};

/// The rows that could be read, and the names of those that could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable<T, K = TemplateId> {
    pub rows: Vec<T>,
    /// Rows with a value that this version does not know.
    pub unreadable: Vec<K>,
}

impl<T> Readable<T> {
    /// Reads each row, which is a template's, by `read`.
    pub(super) fn of(
        rows: &[MySqlRow],
        read: impl Fn(&MySqlRow) -> Result<T, sqlx::Error>,
    ) -> Result<Self, sqlx::Error> {
        Self::named(rows, read, |row, _| Ok(TemplateId(row.try_get("id")?)))
    }
}

impl<T, K> Readable<T, K> {
    /// Reads each row by `read`. `name` names a row that cannot be read, for the reason given.
    pub(crate) fn named(
        rows: &[MySqlRow],
        read: impl Fn(&MySqlRow) -> Result<T, sqlx::Error>,
        name: impl Fn(&MySqlRow, sqlx::Error) -> Result<K, sqlx::Error>,
    ) -> Result<Self, sqlx::Error> {
        let mut found = Self::default();
        for row in rows {
            match row_or(row, &read, &name)? {
                Listed::Row(one) => found.rows.push(one),
                Listed::Unreadable(key) => found.unreadable.push(key),
            }
        }
        Ok(found)
    }
}

impl<T, K> Default for Readable<T, K> {
    fn default() -> Self {
        Self { rows: Vec::new(), unreadable: Vec::new() }
    }
}
