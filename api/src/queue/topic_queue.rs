//! The queue of accepted claims over its topic: how [`landing`] appends to it, and asks how far it has landed.

use std::{error::Error, sync::OnceLock, time::Duration};

use coupon::{QueueReach, QueuedClaim, TemplateId};
use futures::future::{BoxFuture, FutureExt};
use landing::queue::{ClaimQueue, QueueError, QueuePosition};
use runtime::Backoff;
use tokio::time::timeout;
use topic::{
    ClaimsProducer, ONLY_BUCKET, ProducerOptions, QueueOffsets, TopicError, TopicNames,
    claims_partition,
};

use super::{
    followed::Followed,
    metric::{ACKNOWLEDGED, APPENDS, FAILED},
};

/// How long an append waits for the broker. Shorter than the 5 s that a request waits for its claim, so that the client
/// still gets the answer that its claim's outcome is unknown.
const APPEND_MAX: Duration = Duration::from_secs(4);

/// First and longest pause before a topic is read again.
const READ_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The queue of a process.
pub(crate) struct TopicQueue {
    producer: ClaimsProducer,
    offsets: QueueOffsets,
    /// Number of partitions, once it is known.
    partitions: OnceLock<i32>,
    followed: Followed,
    brokers: String,
    names: TopicNames,
}

impl TopicQueue {
    /// Makes the queue. It connects with its first use.
    pub(super) fn new(brokers: &str, names: TopicNames) -> Self {
        let options = ProducerOptions { give_up: Some(APPEND_MAX), ..ProducerOptions::default() };
        Self {
            producer: ClaimsProducer::new(brokers, &names, options),
            offsets: QueueOffsets::new(brokers, &names),
            partitions: OnceLock::new(),
            followed: Followed::default(),
            brokers: brokers.to_owned(),
            names,
        }
    }

    pub(super) fn followed(&self) -> &Followed {
        &self.followed
    }

    /// Returns the partition of a template's claims, if their number was learned.
    pub(super) fn partition(&self, template: TemplateId) -> Option<i32> {
        self.partitions.get().map(|count| claims_partition(template, ONLY_BUCKET, *count))
    }

    /// Learns how far the partitions have landed. Never returns.
    pub(super) async fn follow(&self) {
        let mut backoff = Backoff::new(READ_AGAIN.0, READ_AGAIN.1);
        loop {
            let followed = async {
                self.partitions().await?;
                self.followed.follow(&self.brokers, &self.names.claim_progress()).await
            };
            if let Err(error) = followed.await {
                let error = runtime::report(&error);
                runtime::seldom!("how far queued claims have landed cannot be read", error);
            }
            backoff.wait().await;
        }
    }

    async fn partitions(&self) -> Result<i32, TopicError> {
        if let Some(count) = self.partitions.get() {
            return Ok(*count);
        }
        let count = self.offsets.partitions().await?;
        Ok(*self.partitions.get_or_init(|| count))
    }

    /// Like [`TopicQueue::partition`], but asks for their number if it must: a rebuild may come before anything was read.
    async fn partition_of(&self, template: TemplateId) -> Result<i32, TopicError> {
        Ok(claims_partition(template, ONLY_BUCKET, self.partitions().await?))
    }

    async fn append(&self, claim: &QueuedClaim) -> Result<QueuePosition, QueueError> {
        let appended = timeout(APPEND_MAX, self.producer.publish(claim)).await;
        let topic::QueuePosition { partition, offset } =
            appended.map_err(failed)?.map_err(failed)?;
        self.followed.appended(partition, offset);
        Ok(QueuePosition { partition, offset })
    }
}

impl ClaimQueue for TopicQueue {
    fn publish<'a>(
        &'a self,
        claim: &'a QueuedClaim,
    ) -> BoxFuture<'a, Result<QueuePosition, QueueError>> {
        async move {
            let appended = self.append(claim).await;
            let outcome = if appended.is_ok() { ACKNOWLEDGED } else { FAILED };
            metrics::counter!(APPENDS.name, "outcome" => outcome).increment(1);
            appended
        }
        .boxed()
    }

    fn end(&self, template: TemplateId) -> BoxFuture<'_, Result<i64, QueueError>> {
        async move {
            let partition = self.partition_of(template).await.map_err(failed)?;
            self.offsets.end(partition).await.map_err(failed)
        }
        .boxed()
    }

    fn reach(&self, template: TemplateId) -> BoxFuture<'_, Result<QueueReach, QueueError>> {
        async move {
            let partition = self.partition_of(template).await.map_err(failed)?;
            self.offsets.reach(partition).await.map_err(failed)
        }
        .boxed()
    }

    fn backlog(&self, template: TemplateId) -> Option<u64> {
        self.followed.backlog(self.partition(template)?)
    }
}

fn failed(error: impl Error + Send + Sync + 'static) -> QueueError {
    QueueError::new(error)
}
