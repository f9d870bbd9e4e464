//! Times as parameters of statements.

use chrono::{DateTime, NaiveDateTime, Utc};

/// A time as the `datetime(3)` that the columns are.
///
/// sqlx would send `DateTime<Utc>` as a `timestamp`, whose years end in 2038: MariaDB makes NULL of
/// what comes later, and a condition with it is never true.
pub(crate) fn datetime(time: DateTime<Utc>) -> NaiveDateTime {
    time.naive_utc()
}
