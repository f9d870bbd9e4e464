//! Times as parameters of statements.

use chrono::{DateTime, NaiveDateTime, Utc};

/// Converts a time for a column of type `datetime(3)`.
///
/// sqlx would send `DateTime<Utc>` as a `timestamp`, which ends in 2038. MariaDB turns later times
/// into NULL, and a condition with NULL is never true.
pub(crate) fn datetime(time: DateTime<Utc>) -> NaiveDateTime {
    time.naive_utc()
}
