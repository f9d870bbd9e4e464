//! Messages that cannot be read, put aside with the reason and the place they came from.

use topic::{Delivered, Producer, TopicError};

use crate::apply::Undecodable;

/// Longest payload that is kept: brokers refuse a message over 1 MiB, and headers come on top.
const PAYLOAD_BYTES_MAX: usize = 900 * 1024;

/// Sends the message to the dead letter topic: key and payload as they were, cut if it is oversized.
pub(crate) async fn send(
    producer: &Producer,
    topic: &str,
    undecodable: &Undecodable<'_>,
) -> Result<Delivered, TopicError> {
    let message = undecodable.message;
    let payload = message.payload.as_deref().unwrap_or_default();
    let kept = &payload[..payload.len().min(PAYLOAD_BYTES_MAX)];
    let (partition, offset) = (message.partition.to_string(), message.offset.to_string());
    let (bytes, reason) = (payload.len().to_string(), format!("{:#}", undecodable.reason));
    let headers: [(&str, &[u8]); 5] = [
        ("source-topic", message.topic.as_bytes()),
        ("source-partition", partition.as_bytes()),
        ("source-offset", offset.as_bytes()),
        ("payload-bytes", bytes.as_bytes()),
        ("reason", reason.as_bytes()),
    ];
    producer.send(topic, None, &message.key, kept, &headers).await
}
