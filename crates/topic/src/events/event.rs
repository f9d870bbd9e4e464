//! The change event: a Debezium-compatible JSON envelope.
//!
//! ```json
//! {"before":null,"after":{"id":7,…},"op":"c",
//!  "source":{"db":"coupon","table":"user_coupon","gtid":"0-1-42","file":"binlog.000002","pos":815,
//!            "row":0,"ts_ms":1700000000000,"snapshot":false},
//!  "ts_ms":1700000000007}
//! ```
//! Columns keep their names. Integers are numbers, DATETIME is milliseconds since 1970 in UTC,
//! states are the codes of crate `coupon`, text is text, binary columns are base64.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Value of the header `schema`. Fields may be added under the same version.
pub const SCHEMA_VERSION: &str = "1";

/// Maximum size of an event that is decoded. Brokers accept 1 MiB by default; rows are under 4 KiB.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// One change of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<R> {
    /// The row before the change; `None` for inserts and snapshot rows.
    pub before: Option<R>,
    /// The row after the change; `None` for deletes.
    pub after: Option<R>,
    pub op: Op,
    pub source: Source,
    /// When the tailer processed it, milliseconds since 1970.
    pub ts_ms: i64,
}

/// Kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    #[serde(rename = "c")]
    Create,
    #[serde(rename = "u")]
    Update,
    #[serde(rename = "d")]
    Delete,
    /// A row read by a snapshot: its state, not a change.
    #[serde(rename = "r")]
    Read,
}

impl Op {
    /// Returns the letter used in JSON.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Create => "c",
            Self::Update => "u",
            Self::Delete => "d",
            Self::Read => "r",
        }
    }
}

/// Position of a change in the binlog.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    pub db: String,
    pub table: String,
    /// The transaction's GTID, in the server's own notation; `None` for snapshot rows.
    pub gtid: Option<String>,
    pub file: String,
    /// End position of the event that contains the row.
    pub pos: u64,
    /// Index of the row within its transaction, from 0.
    pub row: u32,
    /// Commit time from the binlog header, milliseconds since 1970, in whole seconds.
    pub ts_ms: i64,
    pub snapshot: bool,
}

/// Error of [`decode`].
#[derive(Debug, Error)]
pub enum DecodeError {
    /// Longer than [`MAX_EVENT_BYTES`].
    #[error("event of {bytes} bytes is over the limit of {MAX_EVENT_BYTES}")]
    Oversize {
        /// Length of the payload.
        bytes: usize,
    },
    /// Not JSON, or JSON of another shape.
    #[error("event is not readable")]
    Malformed(#[source] serde_json::Error),
}

/// Decodes an event of rows `R`, or any other JSON message of this crate. Unknown fields are ignored, so that fields
/// can be added.
///
/// # Errors
///
/// Returns an error if the payload is longer than [`MAX_EVENT_BYTES`] or is not JSON of type `T`.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, DecodeError> {
    if payload.len() > MAX_EVENT_BYTES {
        return Err(DecodeError::Oversize { bytes: payload.len() });
    }
    serde_json::from_slice(payload).map_err(DecodeError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExpiryWakeUp, StockMovementRow};

    #[test]
    fn an_event_survives_the_wire_and_ignores_fields_it_does_not_know() {
        let text = r#"{"before":null,"after":{"template_id":1,"seq":2,"delta":-3,"reason":"cut",
            "actor":"op","created_at":1700000000000,"new_column":[1]},"op":"c","source":{"db":"d",
            "table":"stock_movement","connector":"mysql","ts_ms":1},"ts_ms":5,"transaction":null}"#;
        let event: Event<StockMovementRow> = decode(text.as_bytes()).unwrap();
        assert_eq!(event.op, Op::Create);
        assert_eq!(event.after.as_ref().unwrap().delta, -3);
        let again = serde_json::to_vec(&event).unwrap();
        assert_eq!(decode::<Event<StockMovementRow>>(&again).unwrap(), event);
    }

    #[test]
    fn garbage_and_oversize_payloads_are_errors() {
        assert!(matches!(decode::<ExpiryWakeUp>(b"{"), Err(DecodeError::Malformed(_))));
        let long = vec![b' '; MAX_EVENT_BYTES + 1];
        assert!(matches!(decode::<ExpiryWakeUp>(&long), Err(DecodeError::Oversize { .. })));
    }
}
