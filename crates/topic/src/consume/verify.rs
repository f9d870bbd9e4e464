//! Operations on topics that only tests need.

use std::time::{Duration, Instant};

use rdkafka::{
    Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, ResourceSpecifier},
    config::FromClientConfigAndContext as _,
    error::KafkaError,
    metadata::{MetadataPartition, MetadataTopic},
    types::RDKafkaErrorCode,
};

use crate::{
    TopicError, TopicNames,
    client::{self, LogOnly},
    topic_offsets,
};

/// Timeout of a metadata request.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// How long a removed topic may still be known.
const GONE_MAX: Duration = Duration::from_secs(15);

/// How long a changed setting may be unknown.
const KNOWN_MAX: Duration = Duration::from_secs(15);

/// Interval between checks for either.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Returns the smallest number of in-sync copies among the partitions of topics with `prefix` and of Kafka's own
/// topics; 0 if there are none.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the metadata cannot be read.
pub async fn copies_in_sync(brokers: &str, prefix: &str) -> Result<usize, TopicError> {
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let brokers = brokers.to_owned();
    let prefix = prefix.to_owned();
    client::blocking(move || {
        client::await_broker(admin.inner(), &brokers)?;
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

/// Returns the id of the broker that leads a partition; `None` if none leads it, or it does not exist.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the metadata cannot be read.
pub async fn leader(brokers: &str, topic: &str, partition: i32) -> Result<Option<i32>, TopicError> {
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let brokers = brokers.to_owned();
    let topic = topic.to_owned();
    client::blocking(move || {
        client::await_broker(admin.inner(), &brokers)?;
        let metadata = admin.inner().fetch_metadata(Some(&topic), LOOK_MAX);
        let metadata =
            metadata.map_err(|source| TopicError::Offsets { topic: topic.clone(), source })?;
        let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        let mut leaders =
            partitions.filter(|one| one.id() == partition).map(MetadataPartition::leader);
        Ok(leaders.next().filter(|leader| *leader >= 0))
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
    for span in topic_offsets(brokers, topic).await? {
        let end = Offset::Offset(span.end);
        ends.add_partition_offset(topic, span.partition, end).map_err(failed)?;
    }
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let deleted = admin.delete_records(&ends, &AdminOptions::new()).await.map_err(failed)?;
    for partition in deleted.elements() {
        partition.error().map_err(failed)?;
    }
    Ok(())
}

/// Adds partitions to a topic, which then has `partitions` of them. Messages stay where they are.
///
/// # Errors
///
/// Returns an error if no broker answers, or the topic is missing or already has as many.
pub async fn raise_partitions(
    brokers: &str,
    topic: &str,
    partitions: i32,
) -> Result<(), TopicError> {
    let failed = |source| TopicError::Forget { topic: topic.to_owned(), source };
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let wanted = NewPartitions::new(topic, usize::try_from(partitions).unwrap_or_default());
    let raised = admin.create_partitions(&[wanted], &AdminOptions::new()).await.map_err(failed)?;
    for one in raised {
        one.map_err(|(_, code)| failed(KafkaError::Global(code)))?;
    }
    Ok(())
}

/// Changes a setting of a topic, and waits until a broker knows it: the controller confirms the change a moment before.
///
/// # Errors
///
/// Returns an error if no broker answers, or the topic is missing, or the setting is not known 15 s later.
pub async fn set(brokers: &str, topic: &str, setting: &str, value: &str) -> Result<(), TopicError> {
    let failed = |source| TopicError::Forget { topic: topic.to_owned(), source };
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let wanted = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(setting, value);
    let altered = admin.alter_configs([&wanted], &AdminOptions::new()).await.map_err(failed)?;
    for one in altered {
        one.map_err(|(_, code)| failed(KafkaError::Global(code)))?;
    }
    let described = [ResourceSpecifier::Topic(topic)];
    let deadline = Instant::now() + KNOWN_MAX;
    loop {
        let known =
            admin.describe_configs(&described, &AdminOptions::new()).await.map_err(failed)?;
        let known = known.iter().flatten().find_map(|topic| topic.get(setting));
        if known.is_some_and(|known| known.value.as_deref() == Some(value)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(failed(KafkaError::Global(RDKafkaErrorCode::OperationTimedOut)));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Removes a topic with all its messages, and waits until the broker no longer knows it: the broker confirms the
/// removal a moment before it refuses messages.
///
/// # Errors
///
/// Returns an error if no broker answers, or the topic is missing or still known 15 s later.
pub async fn remove(brokers: &str, topic: &str) -> Result<(), TopicError> {
    let failed = |source| TopicError::Forget { topic: topic.to_owned(), source };
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let removed = admin.delete_topics(&[topic], &AdminOptions::new()).await.map_err(failed)?;
    for one in removed {
        one.map_err(|(_, code)| failed(KafkaError::Global(code)))?;
    }
    let topic = topic.to_owned();
    let deadline = Instant::now() + GONE_MAX;
    client::blocking(move || {
        let failed = |source| TopicError::Forget { topic: topic.clone(), source };
        loop {
            let metadata = admin.inner().fetch_metadata(Some(&topic), LOOK_MAX).map_err(failed)?;
            if client::partition_count(&metadata, &topic).is_none() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(failed(KafkaError::Global(RDKafkaErrorCode::TopicAlreadyExists)));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    })
    .await
}

/// Removes the existing topics among `names`, with all their messages.
///
/// # Errors
///
/// Returns an error if no broker answers.
pub async fn remove_all(brokers: &str, names: &TopicNames) -> Result<(), TopicError> {
    let failed = |source| TopicError::Forget { topic: names.prefix().to_owned(), source };
    let admin = AdminClient::from_config_and_context(&client::base_config(brokers), LogOnly)
        .map_err(TopicError::Client)?;
    let topics = names.all();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let removed = admin.delete_topics(&topics, &AdminOptions::new()).await.map_err(failed)?;
    for one in removed {
        match one {
            Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
            Err((_, code)) => return Err(failed(KafkaError::Global(code))),
        }
    }
    Ok(())
}
