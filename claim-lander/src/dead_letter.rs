//! Dead letters: messages that could not be read, landed or taken as payments, with the reason and their origin.

use std::time::Duration;

use metrics::counter;
use runtime::Backoff;
use topic::{HEADER_TRACE_PARENT, Producer, TopicError, TopicNames};

use crate::metrics::DEAD_LETTERS;

/// First and longest wait before a dead letter is sent again.
const SEND_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Longest payload that is kept: the producer refuses a message over 1,000,000 bytes, including key and headers.
const PAYLOAD_BYTES_MAX: usize = 900 * 1024;

/// Longest key that is kept; ours are ids.
const KEY_BYTES_MAX: usize = 1024;

/// Longest reason that is kept; it may quote the message.
const REASON_BYTES_MAX: usize = 4096;

/// Longest traceparent that is kept; ours are far shorter.
const HEADER_BYTES_MAX: usize = 256;

/// A message to set aside.
pub(crate) struct DeadLetter {
    /// The topic it comes from.
    pub(crate) source: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) trace_parent: Option<String>,
    pub(crate) reason: String,
}

impl DeadLetter {
    /// Sends the letter, however long the broker is away, and counts it.
    pub(crate) async fn put_aside(&self, producer: &Producer, names: &TopicNames) {
        let mut backoff = Backoff::new(SEND_AGAIN.0, SEND_AGAIN.1);
        while let Err(error) = self.send(producer, names).await {
            runtime::seldom!("a dead letter is not sent yet", runtime::report(&error));
            backoff.wait().await;
        }
        counter!(DEAD_LETTERS.name).increment(1);
    }

    /// Sends the letter, truncated if it is too long: a letter that no broker accepts would be sent for ever.
    async fn send(&self, producer: &Producer, names: &TopicNames) -> Result<(), TopicError> {
        let partition = self.partition.to_string();
        let offset = self.offset.to_string();
        let bytes = self.payload.len().to_string();
        let mut headers: Vec<(&str, &[u8])> = vec![
            ("source-topic", self.source.as_bytes()),
            ("source-partition", partition.as_bytes()),
            ("source-offset", offset.as_bytes()),
            ("payload-bytes", bytes.as_bytes()),
            ("reason", cut(self.reason.as_bytes(), REASON_BYTES_MAX)),
        ];
        if let Some(parent) = &self.trace_parent {
            headers.push((HEADER_TRACE_PARENT, cut(parent.as_bytes(), HEADER_BYTES_MAX)));
        }
        let key = cut(&self.key, KEY_BYTES_MAX);
        let payload = cut(&self.payload, PAYLOAD_BYTES_MAX);
        producer.send(&names.dead_letter(), None, key, payload, &headers).await?;
        Ok(())
    }
}

fn cut(bytes: &[u8], longest: usize) -> &[u8] {
    &bytes[..bytes.len().min(longest)]
}
