//! Times in requests and answers.

use std::{borrow::Cow, ops::Range, str::FromStr};

use chrono::{DateTime, SecondsFormat, SubsecRound as _, Utc};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use thiserror::Error;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::http::schemas::Instant;

/// Times that a row can have, in milliseconds since 1970: up to the year 9999. MySQL knows no later ones.
pub(crate) const TIMES_MS: Range<i64> = 0..253_402_300_800_000;

/// Formats a time as RFC 3339 in UTC with milliseconds, the precision of the rows.
pub(crate) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A time in a body or a query: RFC 3339, from 1970, where the view's scores begin, to 9999. It is truncated to the
/// millisecond, the precision of the rows.
///
/// Every time from outside is read by this type. `chrono`'s own parser takes more than RFC 3339 has (`2026-1-1 8:0:0
/// +0545`), and a leap second, which MariaDB stores as a zero date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct RequestInstant(pub(crate) DateTime<Utc>);

/// Why a text is no time for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum NotAnInstant {
    #[error("write a time as RFC 3339 has it, with its offset, such as 2026-11-27T08:00:00Z")]
    Malformed,
    #[error("use a time without a leap second: seconds go from 00 to 59")]
    LeapSecond,
    #[error("use a time from 1970 to 9999")]
    OutOfRange,
}

impl FromStr for RequestInstant {
    type Err = NotAnInstant;

    fn from_str(text: &str) -> Result<Self, NotAnInstant> {
        if text.contains(char::is_whitespace) {
            return Err(NotAnInstant::Malformed);
        }
        let at = DateTime::parse_from_rfc3339(text).map_err(|_| NotAnInstant::Malformed)?;
        let at = at.with_timezone(&Utc);
        // A leap second is represented by more than 999 milliseconds.
        if at.timestamp_subsec_millis() >= 1_000 {
            return Err(NotAnInstant::LeapSecond);
        }
        if !TIMES_MS.contains(&at.timestamp_millis()) {
            return Err(NotAnInstant::OutOfRange);
        }
        Ok(Self(at.trunc_subsecs(3)))
    }
}

impl<'de> Deserialize<'de> for RequestInstant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl PartialSchema for RequestInstant {
    fn schema() -> RefOr<Schema> {
        Instant::schema()
    }
}

impl ToSchema for RequestInstant {
    fn name() -> Cow<'static, str> {
        Instant::name()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_has_an_offset_and_is_truncated_to_the_millisecond() {
        for (text, read) in [
            ("2026-11-27T08:00:00Z", "2026-11-27T08:00:00.000Z"),
            ("2026-11-27T08:00:00.1239+05:45", "2026-11-27T02:15:00.123Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(text.parse::<RequestInstant>().map(|at| instant(at.0)), Ok(read.to_owned()));
        }
    }

    #[test]
    fn what_is_not_rfc_3339_is_refused() {
        for text in [
            "",
            "2026-11-27",
            "2026-11-27T08:00:00",
            "2026-11-27T08:00Z",
            "2026-11-27T08:00:00+0545",
            "2026-11-27T08:00:00+05",
            "2026-11-27T8:00:00Z",
            "2026-1-27T08:00:00Z",
            "2026-11-27 08:00:00Z",
            "2026-11-27T08:00:00 Z",
            " 2026-11-27T08:00:00Z",
            "2026-11-27T24:00:00Z",
            "2026-02-29T08:00:00Z",
            "+12026-11-27T08:00:00Z",
            "1764230400",
        ] {
            assert_eq!(text.parse::<RequestInstant>(), Err(NotAnInstant::Malformed), "{text}");
        }
    }

    #[test]
    fn a_leap_second_and_what_no_column_holds_are_refused() {
        for text in ["2026-11-27T02:23:60Z", "2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z"] {
            assert_eq!(text.parse::<RequestInstant>(), Err(NotAnInstant::LeapSecond), "{text}");
        }
        for text in
            ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z"]
        {
            assert_eq!(text.parse::<RequestInstant>(), Err(NotAnInstant::OutOfRange), "{text}");
        }
        let beyond = "9999-12-31T23:59:59-00:01".parse::<RequestInstant>();
        assert_eq!(beyond, Err(NotAnInstant::OutOfRange));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_no_text_ends_the_process(ms in TIMES_MS, text in ".{0,40}") {
            let at = DateTime::from_timestamp_millis(ms).unwrap();
            prop_assert_eq!(instant(at).parse(), Ok(RequestInstant(at)));
            let read = text.parse::<RequestInstant>();
            prop_assert!(read.is_err() || text.ends_with(char::is_alphanumeric));
        }
    }
}
