//! Publishes queued claims.

use std::{sync::Arc, thread};

use coupon::{QueuedClaim, TemplateId};
use tokio::sync::{Mutex, OnceCell};
use tracing::warn;

use super::{
    message::encode_claim,
    partition::{ONLY_BUCKET, claims_key, claims_partition},
};
use crate::{
    Delivered, HEADER_SCHEMA, HEADER_TRACE_PARENT, Producer, ProducerOptions, SCHEMA_VERSION,
    TopicError, TopicNames,
};

/// A claim's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition {
    /// Partition of the topic `claims`.
    pub partition: i32,
    /// Offset of the claim. The broker does not say the offset of a message that it got twice: then this is the last one
    /// of the partition, which is not before the claim.
    pub offset: i64,
}

/// Publishes queued claims. Many may be under way at once. Clones share one connection.
///
/// A claim that is published twice lands once, so after an error the same claim is simply published again.
#[derive(Clone)]
pub struct ClaimsProducer {
    inner: Arc<Inner>,
}

struct Inner {
    brokers: String,
    topic: String,
    options: ProducerOptions,
    /// Absent until the first claim, and after an error that is final for a client.
    producer: Mutex<Option<Producer>>,
    /// Number of partitions of the topic, which never changes.
    partitions: OnceCell<i32>,
}

impl ClaimsProducer {
    /// Makes a producer. It connects with the first call, so a process starts without a broker.
    pub fn new(brokers: &str, names: &TopicNames, options: ProducerOptions) -> Self {
        let inner = Inner {
            brokers: brokers.to_owned(),
            topic: names.claims(),
            options,
            producer: Mutex::default(),
            partitions: OnceCell::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Publishes a claim and waits until all in-sync copies have it.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is not acknowledged. It may have been written all the same, unless the error is
    /// [refused for good](TopicError::is_refused_for_good).
    pub async fn publish(&self, queued: &QueuedClaim) -> Result<QueuePosition, TopicError> {
        let claim = &queued.admission.claim;
        let partition = self.partition_of(claim.template_id).await?;
        let key = claims_key(claim.template_id, ONLY_BUCKET);
        let mut headers = vec![(HEADER_SCHEMA, SCHEMA_VERSION.as_bytes())];
        headers.extend(claim.trace_parent.as_ref().map(|it| (HEADER_TRACE_PARENT, it.as_bytes())));
        let (topic, payload) = (&self.inner.topic, encode_claim(queued));
        let producer = self.producer().await?;
        let sent = producer.send(topic, Some(partition), key.as_bytes(), &payload, &headers).await;
        match sent {
            Ok(Delivered { partition, offset }) if offset >= 0 => {
                Ok(QueuePosition { partition, offset })
            }
            Ok(Delivered { partition, .. }) => {
                let end = producer.end(topic, partition).await?;
                Ok(QueuePosition { partition, offset: (end - 1).max(0) })
            }
            Err(error) => {
                if error.is_final_for_client() {
                    self.drop_failed(&producer, &error).await;
                }
                Err(error)
            }
        }
    }

    /// Returns the partition of a template's claims.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of partitions is not known and no broker answers, or the topic is missing.
    pub async fn partition_of(&self, template: TemplateId) -> Result<i32, TopicError> {
        Ok(claims_partition(template, ONLY_BUCKET, self.partitions().await?))
    }

    /// Returns the number of partitions of the topic.
    ///
    /// # Errors
    ///
    /// Returns an error if the number is not known and no broker answers, or the topic is missing.
    pub async fn partitions(&self) -> Result<i32, TopicError> {
        let asked = || async { self.producer().await?.partitions(&self.inner.topic).await };
        self.inner.partitions.get_or_try_init(asked).await.copied()
    }

    async fn producer(&self) -> Result<Producer, TopicError> {
        let mut held = self.inner.producer.lock().await;
        if let Some(producer) = &*held {
            return Ok(producer.clone());
        }
        let producer = Producer::open(&self.inner.brokers, self.inner.options).await?;
        Ok(held.insert(producer).clone())
    }

    /// Drops a client that failed for good, unless another task has done it. The next claim makes a new one.
    async fn drop_failed(&self, failed: &Producer, error: &TopicError) {
        let mut held = self.inner.producer.lock().await;
        if held.as_ref().is_some_and(|producer| producer.is_same_as(failed)) {
            warn!(error = %error, "the client of queued claims failed for good and is replaced");
            let failed = held.take();
            // Dropping it may block: it waits for its threads.
            thread::spawn(move || drop(failed));
        }
    }
}
