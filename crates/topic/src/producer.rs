//! One message, one answer.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer as _},
    util::Timeout,
};

use crate::{
    TopicError,
    client::{self, LongLived},
};

/// How a producer weighs delay against size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerOptions {
    /// How long a message waits for company. Under load batches form by themselves.
    pub linger: Duration,
    /// After how long an unacknowledged message fails; `None`: never, so the order always holds.
    pub give_up: Option<Duration>,
    /// Most bytes of messages waiting for the broker; a full queue makes the sender wait.
    pub queue_bytes: usize,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            linger: Duration::ZERO,
            give_up: Some(Duration::from_secs(10)),
            queue_bytes: 16 * 1024 * 1024,
        }
    }
}

impl ProducerOptions {
    /// Idempotent and acknowledged by all replicas, always; the rest from the options.
    pub(crate) fn config(&self, brokers: &str) -> ClientConfig {
        let mut config = client::base_config(brokers);
        let give_up = self.give_up.map_or(0, |after| after.as_millis());
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            // The partition any other client would choose for the key.
            .set("partitioner", "murmur2_random")
            // The broker's work grows with the bytes: a backlog comes through in two thirds of the time
            // (docs/performance.md). Every client can read it.
            .set("compression.type", "lz4")
            .set("linger.ms", self.linger.as_millis().to_string())
            .set("message.timeout.ms", give_up.to_string())
            .set("queue.buffering.max.kbytes", (self.queue_bytes / 1024).max(1).to_string());
        config
    }
}

/// Where a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Its partition.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
}

/// Sends messages one by one and waits for each answer; many sends may be under way at once.
/// Clones share one connection.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<FutureProducer<LongLived>>,
}

impl Producer {
    /// Connects; fails when no broker answers within 15 s.
    pub async fn connect(brokers: &str, options: ProducerOptions) -> Result<Self, TopicError> {
        let inner = client::long_lived(&options.config(brokers), FutureProducer::client)?;
        let (producer, address) = (Arc::clone(&inner), brokers.to_owned());
        client::blocking(move || client::await_topics(producer.client(), &address, &[])).await?;
        Ok(Self { inner })
    }

    /// Sends a message and waits until all replicas have it. Without `partition` the key decides.
    /// Waits while the queue is full. A retriable error leaves open whether it was written.
    pub async fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: &[u8],
        payload: &[u8],
        headers: &[(&str, &[u8])],
    ) -> Result<Delivered, TopicError> {
        let mut record = FutureRecord::to(topic).key(key).payload(payload);
        record.partition = partition;
        record.headers = (!headers.is_empty()).then(|| owned(headers));
        match self.inner.send(record, Timeout::Never).await {
            Ok(delivery) => {
                Ok(Delivered { partition: delivery.partition, offset: delivery.offset })
            }
            Err((source, _)) => Err(TopicError::Produce { topic: topic.to_owned(), source }),
        }
    }

    /// The number of partitions of `topic`, for senders that choose one themselves.
    pub async fn partitions(&self, topic: &str) -> Result<i32, TopicError> {
        let (producer, topic) = (Arc::clone(&self.inner), topic.to_owned());
        client::blocking(move || client::partitions_of(producer.client(), &topic)).await
    }
}

pub(crate) fn owned(headers: &[(&str, &[u8])]) -> OwnedHeaders {
    headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |owned, (key, value)| {
        owned.insert(Header { key, value: Some(*value) })
    })
}
