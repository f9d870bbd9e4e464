//! Times as answers have them.

use chrono::{DateTime, SecondsFormat, Utc};

/// RFC 3339 in UTC, in milliseconds: as exact as the rows are.
pub(crate) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
