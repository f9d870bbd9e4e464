//! Delivers a topic's messages again.

use std::collections::HashSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use topic::{Message, Producer, ProducerOptions, TableReader, TopicError};

/// Messages in flight at a time: many, as for the tailer.
const AT_A_TIME: usize = 256;

/// Returns every distinct message of a topic, in the order of first deliveries.
///
/// # Errors
/// The broker cannot be read.
pub async fn published(brokers: &str, topic: &str) -> Result<Vec<Message>, TopicError> {
    let mut messages = TableReader::open_to_end(brokers, topic).await?.read_to_end().await?;
    let mut seen = HashSet::new();
    messages.retain(|message| seen.insert((message.key.clone(), message.payload.clone())));
    Ok(messages)
}

/// Delivers messages again, unchanged.
///
/// # Errors
/// The broker rejects them.
pub async fn deliver(brokers: &str, messages: &[Message]) -> Result<(), TopicError> {
    let producer = &Producer::connect(brokers, ProducerOptions::default()).await?;
    stream::iter(messages.to_vec())
        .map(|message| async move {
            let Message { topic, partition, key, payload, headers, .. } = &message;
            let headers: Vec<(&str, &[u8])> =
                headers.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
            let payload = payload.as_deref().unwrap_or_default();
            producer.send(topic, Some(*partition), key, payload, &headers).await
        })
        .buffered(AT_A_TIME)
        .try_for_each(async |_| Ok(()))
        .await
}
