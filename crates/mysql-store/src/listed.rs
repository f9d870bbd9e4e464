//! Rows of a list, some of which this version may not be able to read: those of a newer version, or changed by hand. One
//! such row must not hide the others.

use sqlx::mysql::MySqlRow;

/// A row of a list. `P` is its position there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed<T, P> {
    Row(T),
    /// A row with a value that this version cannot read.
    Unreadable(P),
}

impl<T, P> Listed<T, P> {
    /// Returns the row, if it was read.
    pub fn row(&self) -> Option<&T> {
        match self {
            Self::Row(row) => Some(row),
            Self::Unreadable(_) => None,
        }
    }

    /// Like [`Self::row`], by value.
    pub fn into_row(self) -> Option<T> {
        match self {
            Self::Row(row) => Some(row),
            Self::Unreadable(_) => None,
        }
    }

    /// Returns the row's position; that of a row that was read by `of`.
    pub fn position(&self, of: impl FnOnce(&T) -> P) -> P
    where
        P: Clone,
    {
        match self {
            Self::Row(row) => of(row),
            Self::Unreadable(position) => position.clone(),
        }
    }
}

/// Reads each row by `read`, and the position of one that cannot be read by `position`.
pub(crate) fn listed<'r, T, P>(
    rows: &'r [MySqlRow],
    read: impl Fn(&'r MySqlRow) -> Result<T, sqlx::Error>,
    position: impl Fn(&'r MySqlRow) -> Result<P, sqlx::Error>,
) -> Result<Vec<Listed<T, P>>, sqlx::Error> {
    rows.iter().map(|row| row_or(row, &read, |row, _| position(row))).collect()
}

/// Reads a row by `read`. Of one that cannot be read, `unreadable` makes what stands for it, from the reason given.
pub(crate) fn row_or<'r, T, P>(
    row: &'r MySqlRow,
    read: impl Fn(&'r MySqlRow) -> Result<T, sqlx::Error>,
    unreadable: impl Fn(&'r MySqlRow, sqlx::Error) -> Result<P, sqlx::Error>,
) -> Result<Listed<T, P>, sqlx::Error> {
    match read(row) {
        Ok(one) => Ok(Listed::Row(one)),
        Err(error @ (sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_))) => {
            unreadable(row, error).map(Listed::Unreadable)
        }
        Err(error) => Err(error),
    }
}
