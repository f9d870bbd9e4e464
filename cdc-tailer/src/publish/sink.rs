//! Destinations of messages: the broker, or standard output for a dry run.

use std::io::Write;

use topic::{HEADER_POSITION, OrderedProducer, Record};
use tracing::error;

use crate::metrics;

/// Longest key of a dead letter; our keys are ids.
const KEY_BYTES_MAX: usize = 1_024;

/// Accepts messages in order.
pub(crate) trait Sink: Send {
    /// Sends a message; waits while the sink is full.
    fn put(&mut self, record: &Record<'_>) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The broker. A message over the size limit becomes a dead letter with its key, and later messages continue.
pub(crate) struct Broker {
    pub(crate) producer: OrderedProducer,
    pub(crate) dead_letter: String,
    /// Maximum size of a message: key, payload and headers.
    pub(crate) message_bytes_max: usize,
}

impl Sink for Broker {
    async fn put(&mut self, record: &Record<'_>) -> anyhow::Result<()> {
        let bytes = length(record);
        if bytes <= self.message_bytes_max {
            self.producer.enqueue(record).await?;
            return Ok(());
        }
        let key = &record.key[..record.key.len().min(KEY_BYTES_MAX)];
        let position = record.headers.iter().find(|(name, _)| *name == HEADER_POSITION);
        let position = position.map_or(&b""[..], |(_, value)| value);
        error!(
            topic = record.topic,
            key = %String::from_utf8_lossy(key),
            position = %String::from_utf8_lossy(position),
            bytes,
            limit = self.message_bytes_max,
            "the message is too long for a broker: its key becomes a dead letter"
        );
        ::metrics::counter!(metrics::DEAD_LETTERS.name).increment(1);
        let reason = format!("over MESSAGE_BYTES_MAX, {}", self.message_bytes_max);
        let bytes = record.payload.len().to_string();
        let headers: [(&str, &[u8]); 4] = [
            ("source-topic", record.topic.as_bytes()),
            (HEADER_POSITION, position),
            ("payload-bytes", bytes.as_bytes()),
            ("reason", reason.as_bytes()),
        ];
        let letter = Record { topic: &self.dead_letter, key, payload: b"", headers: &headers };
        self.producer.enqueue(&letter).await?;
        Ok(())
    }
}

fn length(record: &Record<'_>) -> usize {
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    record.key.len() + record.payload.len() + headers
}

/// Writes one event per line.
pub(crate) struct Lines<W>(pub(crate) W);

impl<W: Write + Send> Sink for Lines<W> {
    async fn put(&mut self, record: &Record<'_>) -> anyhow::Result<()> {
        self.0.write_all(record.payload)?;
        self.0.write_all(b"\n")?;
        Ok(())
    }
}
