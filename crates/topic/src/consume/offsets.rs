//! Offsets of topics and the lag of groups, for metrics, tests and the verifier.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use rdkafka::{
    Offset,
    consumer::{BaseConsumer, Consumer as _},
    topic_partition_list::TopicPartitionList,
};

use crate::{TopicError, client};

/// Timeout of one request.
pub(crate) const REQUEST_WAIT: Duration = Duration::from_secs(5);

/// Time a new topic may take to be created, and the interval between checks.
const CREATED_MAX: Duration = Duration::from_secs(15);
const CREATED_LOOK: Duration = Duration::from_millis(100);

/// Range of offsets that a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    pub partition: i32,
    /// Offset of the first message.
    pub start: i64,
    /// Offset that the next message will get.
    pub end: i64,
}

/// Returns the start and end offset of each partition.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the offsets cannot be read.
pub async fn topic_offsets(
    brokers: &str,
    topic: &str,
) -> Result<Vec<PartitionOffsets>, TopicError> {
    let address = brokers.to_owned();
    let topic = topic.to_owned();
    with_reader(brokers, "offset-reader", move |reader| watermarks(reader, &address, &topic)).await
}

/// Like [`topic_offsets`], without the partitions that have no leader at the moment. They cannot be read, and the
/// others need not wait for them.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the offsets cannot be read.
pub async fn led_offsets(brokers: &str, topic: &str) -> Result<Vec<PartitionOffsets>, TopicError> {
    let address = brokers.to_owned();
    let topic = topic.to_owned();
    with_reader(brokers, "offset-reader", move |reader| {
        client::await_topics(reader.client(), &address, &[])?;
        let led = client::led_partitions(reader.client(), &topic)?;
        led.into_iter().map(|partition| watermark(reader, &topic, partition)).collect()
    })
    .await
}

/// Returns the number of partitions of a topic, with and without leaders. It waits for a topic that is being created.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the offsets cannot be read.
pub async fn partitions(brokers: &str, topic: &str) -> Result<i32, TopicError> {
    let give_up = Instant::now() + CREATED_MAX;
    loop {
        match partitions_now(brokers, topic).await {
            // This attempt has already waited for the broker.
            Err(error @ TopicError::Unreachable { .. }) => return Err(error),
            Err(error) if error.may_pass() && Instant::now() < give_up => {
                tokio::time::sleep(CREATED_LOOK).await;
            }
            partitions => return partitions,
        }
    }
}

async fn partitions_now(brokers: &str, topic: &str) -> Result<i32, TopicError> {
    let address = brokers.to_owned();
    let topic = topic.to_owned();
    with_reader(brokers, "offset-reader", move |reader| {
        client::await_topics(reader.client(), &address, &[])?;
        client::partitions_of(reader.client(), &topic)
    })
    .await
}

/// Returns the number of messages that `group` has not committed, over all partitions of `topic`.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the offsets cannot be read.
pub async fn committed_lag(brokers: &str, group: &str, topic: &str) -> Result<i64, TopicError> {
    let address = brokers.to_owned();
    let topic = topic.to_owned();
    with_reader(brokers, group, move |reader| {
        let ends = watermarks(reader, &address, &topic)?;
        let committed = committed(reader, &topic, ends.iter().map(|end| end.partition))?;
        Ok(ends.iter().map(|end| behind(end, &committed)).sum())
    })
    .await
}

/// Returns the number of messages before `ends` that `group` has not committed.
///
/// # Errors
///
/// Returns an error if no broker answers or the offsets cannot be read.
pub async fn committed_lag_before(
    brokers: &str,
    group: &str,
    topic: &str,
    ends: &[PartitionOffsets],
) -> Result<i64, TopicError> {
    let topic = topic.to_owned();
    let ends = ends.to_vec();
    with_reader(brokers, group, move |reader| {
        let committed = committed(reader, &topic, ends.iter().map(|end| end.partition))?;
        Ok(ends.iter().map(|end| behind(end, &committed).max(0)).sum())
    })
    .await
}

/// Returns the committed offset of `group`, the next to read, in each partition of `topic` that has one.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s or the offsets cannot be read.
pub async fn committed_offsets(
    brokers: &str,
    group: &str,
    topic: &str,
) -> Result<HashMap<i32, i64>, TopicError> {
    let address = brokers.to_owned();
    let topic = topic.to_owned();
    with_reader(brokers, group, move |reader| {
        // The group's coordinator answers for partitions without a leader too.
        client::await_topics(reader.client(), &address, &[])?;
        let partitions = client::partitions_of(reader.client(), &topic)?;
        committed(reader, &topic, 0..partitions)
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

/// Returns a partition's lag. Without a commit, it is the number of offsets that the partition holds.
fn behind(end: &PartitionOffsets, committed: &HashMap<i32, i64>) -> i64 {
    let position =
        committed.get(&end.partition).map_or(end.start, |offset| *offset.max(&end.start));
    end.end - position
}

/// Calls `read` with a client that reads offsets for `group` without joining it.
async fn with_reader<T: Send + 'static>(
    brokers: &str,
    group: &str,
    read: impl FnOnce(&BaseConsumer) -> Result<T, TopicError> + Send + 'static,
) -> Result<T, TopicError> {
    let mut config = client::base_config(brokers);
    config.set("group.id", group).set("enable.auto.commit", "false");
    client::blocking(move || {
        let reader = config.create().map_err(TopicError::Client)?;
        let answer = read(&reader);
        client::closing::close_aside(reader);
        answer
    })
    .await
}

pub(crate) fn watermarks(
    consumer: &BaseConsumer,
    brokers: &str,
    topic: &str,
) -> Result<Vec<PartitionOffsets>, TopicError> {
    let count = || {
        client::await_topics(consumer.client(), brokers, &[topic.to_owned()])?;
        client::partitions_of(consumer.client(), topic)
    };
    // A broker that has just answered may be busy for some seconds.
    let partitions = count().or_else(|error| match error {
        TopicError::Offsets { .. } if error.is_retriable() => count(),
        error => Err(error),
    })?;
    (0..partitions).map(|partition| watermark(consumer, topic, partition)).collect()
}

fn watermark(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
) -> Result<PartitionOffsets, TopicError> {
    let (start, end) = consumer
        .fetch_watermarks(topic, partition, REQUEST_WAIT)
        .map_err(|source| TopicError::Offsets { topic: topic.to_owned(), source })?;
    Ok(PartitionOffsets { partition, start, end })
}
