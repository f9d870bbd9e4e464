//! Publishes queued claims.

use std::sync::Arc;

use coupon::{QueuedClaim, TemplateId};
use tokio::sync::OnceCell;

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
    /// Offset of the claim. The broker does not return the offset of a message that it received twice: then this is the
    /// last one of the partition, which is not before the claim.
    pub offset: i64,
}

/// Publishes queued claims, many at once. Clones share one connection.
///
/// A claim that is published twice lands once. So after an error the same claim is published again, and the client need
/// not be idempotent.
#[derive(Clone)]
pub struct ClaimsProducer {
    inner: Arc<Inner>,
}

struct Inner {
    brokers: String,
    topic: String,
    options: ProducerOptions,
    /// Absent until the first claim.
    producer: OnceCell<Producer>,
    /// Number of partitions of the topic, which never changes.
    partitions: OnceCell<i32>,
}

impl ClaimsProducer {
    /// Creates a producer. The first call connects, so a process starts without a broker.
    pub fn new(brokers: &str, names: &TopicNames, options: ProducerOptions) -> Self {
        let inner = Inner {
            brokers: brokers.to_owned(),
            topic: names.claims(),
            options: ProducerOptions { idempotent: false, ..options },
            producer: OnceCell::new(),
            partitions: OnceCell::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Publishes a claim and waits until all in-sync copies have it.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is not acknowledged. It may have been written nevertheless, unless the broker
    /// [refused it for good](TopicError::is_refused_for_good).
    pub async fn publish(&self, queued: &QueuedClaim) -> Result<QueuePosition, TopicError> {
        let claim = &queued.admission.claim;
        let partition = self.partition_of(claim.template_id).await?;
        let key = claims_key(claim.template_id, ONLY_BUCKET);
        let mut headers = vec![(HEADER_SCHEMA, SCHEMA_VERSION.as_bytes())];
        headers.extend(claim.trace_parent.as_ref().map(|it| (HEADER_TRACE_PARENT, it.as_bytes())));
        let topic = &self.inner.topic;
        let payload = encode_claim(queued);
        let producer = self.producer().await?;
        let sent = producer.send(topic, Some(partition), key.as_bytes(), &payload, &headers).await;
        let Delivered { partition, offset } = sent?;
        if offset >= 0 {
            return Ok(QueuePosition { partition, offset });
        }
        let end = producer.end(topic, partition).await?;
        Ok(QueuePosition { partition, offset: (end - 1).max(0) })
    }

    /// Returns the partition of a template's claims.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of partitions is not known and no broker answers, or the topic is missing.
    pub async fn partition_of(&self, template: TemplateId) -> Result<i32, TopicError> {
        Ok(claims_partition(template, ONLY_BUCKET, self.partitions().await?))
    }

    /// Takes the number of partitions of the topic as known.
    #[must_use]
    pub fn with_partitions(self, partitions: i32) -> Self {
        // A number that was read before is the same.
        drop(self.inner.partitions.set(partitions));
        self
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

    async fn producer(&self) -> Result<&Producer, TopicError> {
        let open = || Producer::open(&self.inner.brokers, self.inner.options);
        self.inner.producer.get_or_try_init(open).await
    }
}
