//! Ends of topics and how far groups are behind, for metrics, tests and the verifier.

use std::{
    collections::HashMap,
    slice,
    time::{Duration, Instant},
};

use rdkafka::{
    Offset,
    consumer::{BaseConsumer, Consumer as _},
    topic_partition_list::TopicPartitionList,
};

use crate::{TopicError, client};

/// How long one request may take.
const REQUEST_WAIT: Duration = Duration::from_secs(5);

/// How long the leaders of a topic that was just created may take to move in, and how often it is
/// looked for them.
const LEADERS_MAX: Duration = Duration::from_secs(15);
const LEADERS_LOOK: Duration = Duration::from_millis(100);

/// The span of offsets that a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// Partition.
    pub partition: i32,
    /// Offset of its first message.
    pub start: i64,
    /// Offset that its next message will get.
    pub end: i64,
}

/// Start and end of each partition. Fails when no broker answers within 15 s.
pub async fn topic_offsets(
    brokers: &str,
    topic: &str,
) -> Result<Vec<PartitionOffsets>, TopicError> {
    let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
    client::blocking(move || {
        let consumer = reader(&brokers, "offset-reader")?;
        watermarks(&consumer, &brokers, &topic)
    })
    .await
}

/// The number of partitions of a topic, once they have leaders: right after a topic was created they
/// have none, and whoever assigns work by partition must wait. Fails when no broker answers within
/// 15 s.
pub async fn partitions(brokers: &str, topic: &str) -> Result<i32, TopicError> {
    let give_up = Instant::now() + LEADERS_MAX;
    loop {
        match topic_offsets(brokers, topic).await {
            // A broker that does not answer has been waited for already.
            Err(error @ TopicError::Unreachable { .. }) => return Err(error),
            Err(error) if error.is_retriable() && Instant::now() < give_up => {
                tokio::time::sleep(LEADERS_LOOK).await;
            }
            offsets => {
                return Ok(offsets?.iter().map(|one| one.partition + 1).max().unwrap_or(0));
            }
        }
    }
}

/// How many messages `group` has not committed yet, over all partitions of `topic`. Fails when no
/// broker answers within 15 s.
pub async fn committed_lag(brokers: &str, group: &str, topic: &str) -> Result<i64, TopicError> {
    let (brokers, group, topic) = (brokers.to_owned(), group.to_owned(), topic.to_owned());
    client::blocking(move || {
        let consumer = reader(&brokers, &group)?;
        let ends = watermarks(&consumer, &brokers, &topic)?;
        let committed = committed(&consumer, &topic, ends.iter().map(|end| end.partition))?;
        Ok(ends.iter().map(|end| behind(end, &committed)).sum())
    })
    .await
}

/// Of each partition of `topic` that `group` has committed, the offset of the next message it wants.
/// Fails when no broker answers within 15 s.
pub async fn committed_offsets(
    brokers: &str,
    group: &str,
    topic: &str,
) -> Result<HashMap<i32, i64>, TopicError> {
    let (brokers, group, topic) = (brokers.to_owned(), group.to_owned(), topic.to_owned());
    client::blocking(move || {
        let consumer = reader(&brokers, &group)?;
        client::await_topics(consumer.client(), &brokers, slice::from_ref(&topic))?;
        let partitions = client::partitions_of(consumer.client(), &topic)?;
        committed(&consumer, &topic, 0..partitions)
    })
    .await
}

fn committed(
    consumer: &BaseConsumer,
    topic: &str,
    partitions: impl Iterator<Item = i32>,
) -> Result<HashMap<i32, i64>, TopicError> {
    let mut asked = TopicPartitionList::new();
    for partition in partitions {
        asked.add_partition(topic, partition);
    }
    let answer = consumer
        .committed_offsets(asked, REQUEST_WAIT)
        .map_err(|source| TopicError::Offsets { topic: topic.to_owned(), source })?;
    let known = answer.elements().into_iter().filter_map(|element| match element.offset() {
        Offset::Offset(offset) => Some((element.partition(), offset)),
        _ => None,
    });
    Ok(known.collect())
}

/// A partition never committed is behind by all it holds.
fn behind(end: &PartitionOffsets, committed: &HashMap<i32, i64>) -> i64 {
    let position =
        committed.get(&end.partition).map_or(end.start, |offset| *offset.max(&end.start));
    end.end - position
}

fn reader(brokers: &str, group: &str) -> Result<BaseConsumer, TopicError> {
    client::base_config(brokers)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .create()
        .map_err(TopicError::Client)
}

pub(crate) fn watermarks(
    consumer: &BaseConsumer,
    brokers: &str,
    topic: &str,
) -> Result<Vec<PartitionOffsets>, TopicError> {
    client::await_topics(consumer.client(), brokers, &[topic.to_owned()])?;
    let partitions = client::partitions_of(consumer.client(), topic)?;
    (0..partitions)
        .map(|partition| {
            let (start, end) = consumer
                .fetch_watermarks(topic, partition, REQUEST_WAIT)
                .map_err(|source| TopicError::Offsets { topic: topic.to_owned(), source })?;
            Ok(PartitionOffsets { partition, start, end })
        })
        .collect()
}
