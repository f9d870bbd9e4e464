//! Operations on topics that only tests need.

use std::time::Duration;

use rdkafka::{
    Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions},
    config::FromClientConfigAndContext as _,
    metadata::MetadataTopic,
};

use crate::{
    TopicError,
    client::{self, LogOnly},
    topic_offsets,
};

/// Timeout of a metadata request.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Returns the smallest number of in-sync copies among the partitions of topics with `prefix` and of Kafka's own
/// topics; 0 if there are none.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the metadata cannot be read.
pub async fn copies_in_sync(brokers: &str, prefix: &str) -> Result<usize, TopicError> {
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let (brokers, prefix) = (brokers.to_owned(), prefix.to_owned());
    client::blocking(move || {
        client::await_topics(admin.inner(), &brokers, &[])?;
        let metadata = admin.inner().fetch_metadata(None, LOOK_MAX);
        let metadata =
            metadata.map_err(|source| TopicError::Offsets { topic: prefix.clone(), source })?;
        let is_meant = |name: &str| name.starts_with(&prefix) || name.starts_with("__");
        let topics = metadata.topics().iter().filter(|topic| is_meant(topic.name()));
        let copies = topics.flat_map(MetadataTopic::partitions).map(|one| one.isr().len());
        Ok(copies.min().unwrap_or(0))
    })
    .await
}

/// Deletes all messages that a topic holds now, as retention does: later offsets continue after them.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or messages cannot be deleted.
pub async fn forget_messages(brokers: &str, topic: &str) -> Result<(), TopicError> {
    let failed = |source| TopicError::Forget { topic: topic.to_owned(), source };
    let mut ends = TopicPartitionList::new();
    for held in topic_offsets(brokers, topic).await? {
        let end = Offset::Offset(held.end);
        ends.add_partition_offset(topic, held.partition, end).map_err(failed)?;
    }
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let deleted = admin.delete_records(&ends, &AdminOptions::new()).await.map_err(failed)?;
    for partition in deleted.elements() {
        partition.error().map_err(failed)?;
    }
    Ok(())
}
