//! A consumed message that owns its data, and where it stands.

use rdkafka::{
    Message as _,
    message::{BorrowedMessage, Headers},
};
use serde::{Deserialize, Serialize};

/// Header: the W3C trace context of the request behind the change.
pub const HEADER_TRACE_PARENT: &str = "traceparent";

/// Header: version of the event format.
pub const HEADER_SCHEMA: &str = "schema";

/// Header: GTID and row number of the change. Shows whether a record is the one that was written.
pub const HEADER_POSITION: &str = "position";

/// Header of a row that was read anew because its values may have changed and not its version: `definition` or `history`
/// says how. A reader that goes by versions must drop what it knows of the row.
pub const HEADER_RESTATED: &str = "restated";

/// Position of a message in its partition. The timestamp distinguishes it from another message at the same offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagePosition {
    pub offset: i64,
    /// When it was produced, milliseconds since 1970, as stored by the broker.
    pub time_ms: i64,
}

/// One message of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// Empty if there is none.
    pub key: Vec<u8>,
    /// `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    /// When it was produced, milliseconds since 1970, if known.
    pub timestamp_ms: Option<i64>,
}

impl Message {
    /// Returns the first header of this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn detach(message: &BorrowedMessage<'_>) -> Self {
        let header = |header: rdkafka::message::Header<'_, &[u8]>| {
            (header.key.to_owned(), header.value.unwrap_or_default().to_vec())
        };
        Self {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().unwrap_or_default().to_vec(),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: message
                .headers()
                .map(|all| all.iter().map(header).collect())
                .unwrap_or_default(),
            timestamp_ms: message.timestamp().to_millis(),
        }
    }
}
