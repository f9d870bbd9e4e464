//! Offsets of topics and the lag of groups, for metrics, tests and the verifier.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset,
    consumer::{BaseConsumer, Consumer as _},
    topic_partition_list::TopicPartitionList,
    types::RDKafkaErrorCode,
};

use crate::{TopicError, client};

/// Timeout of one request.
pub(crate) const REQUEST_WAIT: Duration = Duration::from_secs(5);

/// Time a new topic may take to be created, and the interval between checks.
const CREATED_MAX: Duration = Duration::from_secs(15);
const CREATED_LOOK: Duration = Duration::from_millis(100);

/// The group of clients that read for none. The client requires one; nothing is ever committed under it.
const READER: &str = "offset-reader";

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
    with_reader(brokers, READER, move |reader| watermarks(reader, &address, &topic)).await
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
    with_reader(brokers, READER, move |reader| {
        client::await_broker(reader.client(), &address)?;
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
    with_reader(brokers, READER, move |reader| {
        client::await_broker(reader.client(), &address)?;
        client::partitions_of(reader.client(), &topic)
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
        client::await_broker(reader.client(), &address)?;
        let partitions = client::partitions_of(reader.client(), &topic)?;
        committed(reader, &topic, 0..partitions)
    })
    .await
}

/// Reads offsets of groups and topics again and again: it keeps a client for each group, since a new one opens three
/// connections. A client whose read failed is replaced.
pub struct OffsetReader {
    brokers: String,
    kept: Mutex<HashMap<String, BaseConsumer>>,
}

impl OffsetReader {
    /// Creates it. The first read connects.
    pub fn new(brokers: &str) -> Self {
        Self { brokers: brokers.to_owned(), kept: Mutex::default() }
    }

    /// Returns the start and end offset of each partition.
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s or the offsets cannot be read.
    pub async fn topic_offsets(&self, topic: &str) -> Result<Vec<PartitionOffsets>, TopicError> {
        let address = self.brokers.clone();
        let topic = topic.to_owned();
        self.read(READER, move |reader| watermarks(reader, &address, &topic)).await
    }

    /// Returns the number of messages that `group` has not committed, over all partitions of `topic`.
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s or the offsets cannot be read.
    pub async fn committed_lag(&self, group: &str, topic: &str) -> Result<i64, TopicError> {
        let address = self.brokers.clone();
        let topic = topic.to_owned();
        self.read(group, move |reader| {
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
        &self,
        group: &str,
        topic: &str,
        ends: &[PartitionOffsets],
    ) -> Result<i64, TopicError> {
        let topic = topic.to_owned();
        let ends = ends.to_vec();
        self.read(group, move |reader| {
            let committed = committed(reader, &topic, ends.iter().map(|end| end.partition))?;
            Ok(ends.iter().map(|end| behind(end, &committed).max(0)).sum())
        })
        .await
    }

    /// Calls `read` with the client of `group`. A client that is kept may know a broker that is gone: after its failure a
    /// new one tries once more.
    async fn read<T: Send + 'static>(
        &self,
        group: &str,
        read: impl Fn(&BaseConsumer) -> Result<T, TopicError> + Clone + Send + 'static,
    ) -> Result<T, TopicError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(group);
        if let Some(reader) = kept
            && let Ok(answer) = self.read_by(group, reader, read.clone()).await
        {
            return Ok(answer);
        }
        let brokers = self.brokers.clone();
        let of = group.to_owned();
        let new = client::blocking(move || new_reader(&brokers, &of)).await?;
        self.read_by(group, new, read).await
    }

    /// Keeps the client if it answers.
    async fn read_by<T: Send + 'static>(
        &self,
        group: &str,
        reader: BaseConsumer,
        read: impl FnOnce(&BaseConsumer) -> Result<T, TopicError> + Send + 'static,
    ) -> Result<T, TopicError> {
        let answered = client::blocking(move || match read(&reader) {
            Ok(answer) => Ok((answer, reader)),
            Err(error) => {
                client::closing::close_aside(reader);
                Err(error)
            }
        });
        let (answer, reader) = answered.await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Another task may have read for the same group meanwhile.
        let replaced = kept.insert(group.to_owned(), reader);
        drop(kept);
        if let Some(replaced) = replaced {
            client::closing::close_aside(replaced);
        }
        Ok(answer)
    }
}

impl Drop for OffsetReader {
    fn drop(&mut self) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        kept.drain().for_each(|(_, reader)| client::closing::close_aside(reader));
    }
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
    let brokers = brokers.to_owned();
    let group = group.to_owned();
    client::blocking(move || {
        let reader = new_reader(&brokers, &group)?;
        let answer = read(&reader);
        client::closing::close_aside(reader);
        answer
    })
    .await
}

fn new_reader(brokers: &str, group: &str) -> Result<BaseConsumer, TopicError> {
    let mut config = client::base_config(brokers);
    config.set("group.id", group).set("enable.auto.commit", "false");
    config.create().map_err(TopicError::Client)
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
    let give_up = Instant::now() + REQUEST_WAIT;
    loop {
        match consumer.fetch_watermarks(topic, partition, REQUEST_WAIT) {
            Ok((start, end)) => return Ok(PartitionOffsets { partition, start, end }),
            // A broker tells of a new leader a moment before that one leads, also of a topic that was just created.
            Err(source)
                if source.rdkafka_error_code() == Some(RDKafkaErrorCode::NotLeaderForPartition)
                    && Instant::now() < give_up =>
            {
                std::thread::sleep(CREATED_LOOK);
            }
            Err(source) => return Err(TopicError::Offsets { topic: topic.to_owned(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    /// Waits for a broker that never answers.
    mod full {
        use std::net::TcpListener;

        use devstack::TestServers;

        use super::super::*;
        use crate::{TopicLayout, TopicNames, ensure_topics};

        #[tokio::test(flavor = "multi_thread")]
        async fn a_kept_client_whose_brokers_are_gone_is_replaced() {
            let scope = TestServers::shared().scope("kept offsets");
            let brokers = &scope.endpoints.kafka_brokers;
            let names = TopicNames::new(&scope.topic_prefix);
            let layout = TopicLayout { partitions: 2, replication: 1 };
            ensure_topics(brokers, &names, &layout).await.unwrap();
            let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let offsets = OffsetReader::new(brokers);
            let lost = new_reader(&nowhere.to_string(), READER).unwrap();
            offsets.kept.lock().unwrap().insert(READER.to_owned(), lost);
            for _ in 0..2 {
                assert_eq!(offsets.topic_offsets(&names.expiry()).await.unwrap().len(), 2);
            }
        }
    }
}
