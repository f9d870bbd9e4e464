//! Rows of templates, some of which this version may not be able to read: those of a newer version, or changed by hand.
//! One such row must not keep the others from being worked on.

use coupon::TemplateId;
use sqlx::{Row, mysql::MySqlRow};

use crate::listed::{Listed, listed};

/// The templates that could be read, and those that could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable<T> {
    pub rows: Vec<T>,
    /// Templates with a value that this version does not know.
    pub unreadable: Vec<TemplateId>,
}

impl<T> Readable<T> {
    /// Reads each row by `read`.
    pub(super) fn of(
        rows: &[MySqlRow],
        read: impl Fn(&MySqlRow) -> Result<T, sqlx::Error>,
    ) -> Result<Self, sqlx::Error> {
        let mut found = Self::default();
        for one in listed(rows, read, |row| row.try_get("id").map(TemplateId))? {
            match one {
                Listed::Row(row) => found.rows.push(row),
                Listed::Unreadable(id) => found.unreadable.push(id),
            }
        }
        Ok(found)
    }
}

impl<T> Default for Readable<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), unreadable: Vec::new() }
    }
}
