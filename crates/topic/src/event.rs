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

/// The version that the header `schema` carries. Fields may be added under the same version.
pub const SCHEMA_VERSION: &str = "1";

/// The longest event that is decoded: brokers take 1 MiB by default, and rows are under 4 KiB.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// One change of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<R> {
    /// The row before; `None` for creations and snapshot rows.
    pub before: Option<R>,
    /// The row after; `None` for deletions.
    pub after: Option<R>,
    /// What happened.
    pub op: Op,
    /// Where it comes from.
    pub source: Source,
    /// When the tailer handled it, milliseconds since 1970.
    pub ts_ms: i64,
}

/// What happened to the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// It was inserted.
    #[serde(rename = "c")]
    Create,
    /// It was updated.
    #[serde(rename = "u")]
    Update,
    /// It was deleted.
    #[serde(rename = "d")]
    Delete,
    /// It was read by a snapshot: its state, not a change.
    #[serde(rename = "r")]
    Read,
}

impl Op {
    /// The letter on the wire.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Create => "c",
            Self::Update => "u",
            Self::Delete => "d",
            Self::Read => "r",
        }
    }
}

/// The place of a change in the binlog.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// Database.
    pub db: String,
    /// Table.
    pub table: String,
    /// The transaction's GTID, in the server's own notation; `None` for snapshot rows.
    pub gtid: Option<String>,
    /// Binlog file.
    pub file: String,
    /// Position of the end of the event that held the row.
    pub pos: u64,
    /// Number of the row within its transaction, from 0.
    pub row: u32,
    /// Commit time by the binlog header, milliseconds since 1970, in whole seconds.
    pub ts_ms: i64,
    /// Whether a snapshot read it.
    pub snapshot: bool,
}

/// Why bytes are not an event.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// Longer than [`MAX_EVENT_BYTES`].
    #[error("event of {bytes} bytes is over the limit of {MAX_EVENT_BYTES}")]
    Oversize {
        /// Its length.
        bytes: usize,
    },
    /// Not JSON, or not of this shape.
    #[error("event is not readable")]
    Malformed(#[source] serde_json::Error),
}

/// Reads an event of rows `R`, or any other JSON message of this crate. Unknown fields are ignored,
/// so that fields can be added.
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
