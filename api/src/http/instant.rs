//! Format of times in answers.

use chrono::{DateTime, SecondsFormat, Utc};

/// Formats a time as RFC 3339 in UTC with milliseconds, the precision of the rows.
pub(crate) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
