//! A topic that is delivered again.

use std::collections::HashSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use topic::{Message, Producer, ProducerOptions, TableReader, TopicError};

/// Messages on their way at a time: as the tailer, far more than one.
const AT_A_TIME: usize = 256;

/// Every message of a topic, each once however often it was delivered, in the order of their first deliveries.
///
/// # Errors
/// The broker cannot be read.
pub async fn told(brokers: &str, topic: &str) -> Result<Vec<Message>, TopicError> {
    let mut messages = TableReader::open(brokers, topic).await?.read_to_end().await?;
    let mut seen = HashSet::new();
    messages.retain(|message| seen.insert((message.key.clone(), message.payload.clone())));
    Ok(messages)
}

/// Delivers messages once more, as they were.
///
/// # Errors
/// The broker does not take them.
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
