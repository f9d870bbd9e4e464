//! The queue of accepted claims, as the api uses it: it appends claims (`topic_queue.rs`) and shows users their
//! position (`followed.rs`, `landing_rate.rs`). Claim landers report on a topic how far they are, and every api follows that,
//! so a client that waits costs no read of MySQL or Redis.

mod followed;
pub(crate) mod landing_rate;
pub(crate) mod metric;
mod streams;
mod topic_queue;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use coupon::TemplateId;
use landing::queue::{ClaimQueue, QueuePosition};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;
use topic::TopicNames;

pub(crate) use self::streams::StreamPlace;
use self::{
    landing_rate::LandingRate, metric::EVENT_STREAMS, streams::Streams, topic_queue::TopicQueue,
};
use crate::config::Config;

/// Most concurrent lookups in MySQL of claims that clients follow: half of the connections that requests share by
/// default. When a large queue has landed, thousands of clients are due at one moment.
const LOOKS_MAX: usize = 8;

/// The queue, as requests see it.
pub(crate) struct Queue {
    topic: Arc<TopicQueue>,
    pub(crate) streams: Streams,
    /// Length of a stream at most.
    pub(crate) stream_max: Duration,
    looks: Semaphore,
    /// Cancelled when the process is to stop: streams end then.
    stop: CancellationToken,
}

/// Position and estimated wait of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct QueueEstimate {
    /// Claims that land before it. `None`: not known.
    pub(crate) position: Option<u64>,
    /// Time until its outcome, in milliseconds. `None`: not known, or nothing lands.
    pub(crate) estimated_ms: Option<u64>,
}

impl QueueEstimate {
    /// Returns position and estimate of the claim at `offset` by this rate of landing. `most` bounds the position, which
    /// never rises.
    pub(crate) fn of(
        landing_rate: Option<LandingRate>,
        offset: Option<i64>,
        most: Option<u64>,
        now: DateTime<Utc>,
    ) -> Self {
        let (Some(landing_rate), Some(offset)) = (landing_rate, offset) else {
            return Self { position: most, estimated_ms: None };
        };
        let position = landing_rate.position(offset);
        let shown = most.map_or(position, |most| position.min(most));
        Self { position: Some(shown), estimated_ms: landing_rate.estimated_ms(position, now) }
    }
}

impl Queue {
    /// Makes the queue. It works without a broker too, except that appends fail.
    pub(crate) fn new(config: &Config, stop: CancellationToken) -> Self {
        let names = TopicNames::new(&config.topic_prefix);
        let topic = TopicQueue::new(&config.kafka_brokers, names);
        let streams = Streams::among(config.connections_max);
        let stream_max = Duration::from_secs(config.event_stream_seconds);
        let looks = Semaphore::new(LOOKS_MAX);
        Self { topic: Arc::new(topic), streams, stream_max, looks, stop }
    }

    /// Returns the queue as claims, rebuilds and the resolver use it.
    pub(crate) fn of_claims(&self) -> Arc<dyn ClaimQueue> {
        Arc::<TopicQueue>::clone(&self.topic)
    }

    /// Learns from the landers how far they are. Never returns.
    pub(crate) fn follow(&self) -> impl Future<Output = ()> + Send + use<> {
        let topic = Arc::clone(&self.topic);
        async move { topic.follow().await }
    }

    /// Returns a claim's position and estimate now.
    pub(crate) fn estimate(
        &self,
        place: Option<QueuePosition>,
        now: DateTime<Utc>,
    ) -> QueueEstimate {
        let Some(QueuePosition { partition, offset }) = place else {
            return QueueEstimate::default();
        };
        QueueEstimate::of(self.topic.followed().landing_rate(partition), Some(offset), None, now)
    }

    /// Subscribes to the reports of the place's partition or, without a place, of the template's.
    pub(crate) fn subscribe(
        &self,
        template: TemplateId,
        place: Option<QueuePosition>,
    ) -> watch::Receiver<Option<LandingRate>> {
        let known = place.map(|place| place.partition).or_else(|| self.topic.partition(template));
        // If no broker has answered since the start, no partition is known, so any one serves.
        self.topic.followed().subscribe(known.unwrap_or(0))
    }

    /// Waits for a permit to look up a followed claim in MySQL.
    pub(crate) async fn look_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.looks.acquire().await.ok()
    }

    /// Resolves when the process is to stop.
    pub(crate) async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    pub(crate) fn measure(&self) {
        metrics::gauge!(EVENT_STREAMS.name).set(self.streams.open() as f64);
    }
}

#[cfg(test)]
mod tests {
    use topic::PartitionProgress;

    use super::*;

    #[test]
    fn a_position_never_rises_and_is_unknown_without_a_place() {
        let now = DateTime::from_timestamp_millis(1_000).unwrap();
        let report = PartitionProgress {
            partition: 0,
            committed: 100,
            end: 500,
            landed_per_s: 50.0,
            at_ms: 1_000,
        };
        let landing_rate = Some(LandingRate::after(None, &report));
        let at = |most| QueueEstimate::of(landing_rate, Some(300), most, now).position;
        assert_eq!([None, Some(900), Some(7)].map(at), [Some(200), Some(200), Some(7)]);
        assert_eq!(QueueEstimate::of(landing_rate, None, None, now), QueueEstimate::default());
        assert_eq!(QueueEstimate::of(None, Some(300), Some(7), now).position, Some(7), "as before");
    }
}
