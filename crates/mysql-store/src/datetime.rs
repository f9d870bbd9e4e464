//! Times as parameters of statements, and nullable ones in rows.

use chrono::{DateTime, NaiveDateTime, Utc};
use sqlx::{
    Decode, MySql, Type,
    error::{BoxDynError, UnexpectedNullError},
    mysql::{MySqlTypeInfo, MySqlValueRef},
};

/// Converts a time for a column of type `datetime(3)`.
///
/// sqlx would send `DateTime<Utc>` as a `timestamp`, which ends in 2038. MariaDB turns later times
/// into NULL, and a condition with NULL is never true.
pub(crate) fn datetime(time: DateTime<Utc>) -> NaiveDateTime {
    time.naive_utc()
}

/// A nullable `datetime(3)` of a row. A zero date makes the row unreadable.
///
/// sqlx reads `0000-00-00 00:00:00` as NULL, which in our columns means "never" or "not yet": a key with a zero date
/// would not expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NullableTime(Option<DateTime<Utc>>);

impl From<NullableTime> for Option<DateTime<Utc>> {
    fn from(time: NullableTime) -> Self {
        time.0
    }
}

impl Type<MySql> for NullableTime {
    fn type_info() -> MySqlTypeInfo {
        <DateTime<Utc> as Type<MySql>>::type_info()
    }

    fn compatible(ty: &MySqlTypeInfo) -> bool {
        <DateTime<Utc> as Type<MySql>>::compatible(ty)
    }
}

impl<'r> Decode<'r, MySql> for NullableTime {
    fn decode(value: MySqlValueRef<'r>) -> Result<Self, BoxDynError> {
        match <&[u8] as Decode<MySql>>::decode(value.clone()) {
            Err(error) if error.is::<UnexpectedNullError>() => Ok(Self(None)),
            Err(error) => Err(error),
            // The binary protocol sends a zero date as no bytes, behind their length.
            Ok(bytes) if bytes.first() == Some(&0) => Err("a zero date is no time".into()),
            Ok(_) => DateTime::<Utc>::decode(value).map(|time| Self(Some(time))),
        }
    }
}
