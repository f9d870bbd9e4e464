//! Dead letters: messages that could not be read or landed, with the reason and their origin.

use topic::{HEADER_TRACE_PARENT, Producer, TopicError, TopicNames};

/// Longest payload that is kept: the producer refuses a message over 1,000,000 bytes, including key and headers.
const PAYLOAD_BYTES_MAX: usize = 900 * 1024;

/// Longest key that is kept; ours are ids.
const KEY_BYTES_MAX: usize = 1024;

/// Longest reason that is kept; it may quote the message.
const REASON_BYTES_MAX: usize = 4096;

/// Longest traceparent that is kept; ours are far shorter.
const HEADER_BYTES_MAX: usize = 256;

/// A message to put aside.
pub(crate) struct DeadLetter {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) trace_parent: Option<String>,
    pub(crate) reason: String,
}

impl DeadLetter {
    /// Sends it, truncated if oversized: a letter that no broker accepts would be sent for ever.
    pub(crate) async fn send(
        &self,
        producer: &Producer,
        names: &TopicNames,
    ) -> Result<(), TopicError> {
        let source = names.claims();
        let (partition, offset) = (self.partition.to_string(), self.offset.to_string());
        let bytes = self.payload.len().to_string();
        let mut headers: Vec<(&str, &[u8])> = vec![
            ("source-topic", source.as_bytes()),
            ("source-partition", partition.as_bytes()),
            ("source-offset", offset.as_bytes()),
            ("payload-bytes", bytes.as_bytes()),
            ("reason", cut(self.reason.as_bytes(), REASON_BYTES_MAX)),
        ];
        if let Some(parent) = &self.trace_parent {
            headers.push((HEADER_TRACE_PARENT, cut(parent.as_bytes(), HEADER_BYTES_MAX)));
        }
        let (key, payload) = (cut(&self.key, KEY_BYTES_MAX), cut(&self.payload, PAYLOAD_BYTES_MAX));
        producer.send(&names.dead_letter(), None, key, payload, &headers).await?;
        Ok(())
    }
}

fn cut(bytes: &[u8], longest: usize) -> &[u8] {
    &bytes[..bytes.len().min(longest)]
}
