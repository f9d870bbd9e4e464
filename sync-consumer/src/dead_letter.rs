//! Dead letters: unreadable messages, with the reason and their origin.

use topic::{Delivered, HEADER_POSITION, HEADER_SCHEMA, HEADER_TRACE_PARENT, Producer, TopicError};

use crate::work::Undecodable;

/// Longest payload that is kept: the producer refuses a message over 1,000,000 bytes, including key
/// and headers.
const PAYLOAD_BYTES_MAX: usize = 900 * 1024;

/// Longest key that is kept; our keys are ids.
const KEY_BYTES_MAX: usize = 1024;

/// Longest reason that is kept; it may quote the message.
const REASON_BYTES_MAX: usize = 4096;

/// Headers copied into the dead letter, so that the message can be put back unchanged.
const KEPT_HEADERS: [&str; 3] = [HEADER_SCHEMA, HEADER_POSITION, HEADER_TRACE_PARENT];

/// Longest header value that is kept; ours are far shorter.
const HEADER_BYTES_MAX: usize = 256;

/// Sends the message to the dead letter topic with its key and payload, truncated if oversized: a
/// letter that no broker accepts would be retried forever.
pub(crate) async fn send(
    producer: &Producer,
    topic: &str,
    undecodable: &Undecodable<'_>,
) -> Result<Delivered, TopicError> {
    let message = undecodable.message;
    let payload = message.payload.as_deref().unwrap_or_default();
    let partition = message.partition.to_string();
    let offset = message.offset.to_string();
    let bytes = payload.len().to_string();
    let reason = format!("{:#}", undecodable.reason);
    let mut headers: Vec<(&str, &[u8])> = vec![
        ("source-topic", message.topic.as_bytes()),
        ("source-partition", partition.as_bytes()),
        ("source-offset", offset.as_bytes()),
        ("payload-bytes", bytes.as_bytes()),
        ("reason", cut(reason.as_bytes(), REASON_BYTES_MAX)),
    ];
    headers.extend(
        KEPT_HEADERS.into_iter().filter_map(|name| {
            message.header(name).map(|value| (name, cut(value, HEADER_BYTES_MAX)))
        }),
    );
    let key = cut(&message.key, KEY_BYTES_MAX);
    let payload = cut(payload, PAYLOAD_BYTES_MAX);
    producer.send(topic, None, key, payload, &headers).await
}

fn cut(bytes: &[u8], longest: usize) -> &[u8] {
    &bytes[..bytes.len().min(longest)]
}
