//! What tests do to topics, and no process ever does.

use rdkafka::{
    Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions},
    config::FromClientConfigAndContext as _,
};

use crate::{
    TopicError,
    client::{self, LogOnly},
    topic_offsets,
};

/// Deletes all messages that a topic holds by now, as retention does: its offsets go on. Fails when no
/// broker answers within 15 s.
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
