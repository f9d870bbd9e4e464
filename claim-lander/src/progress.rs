//! Publishes the progress of the lander's partitions, from which apis compute users' positions.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use metrics::gauge;
use runtime::Clock;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use topic::{ClaimsReader, Producer, QueueOffsets, TopicError, TopicNames};

use crate::{
    lanes::Lanes,
    metrics::{BACKLOG, OLDEST},
};

/// Interval between messages of one partition: how often a waiting user's position changes.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Partitions whose ends are read at the same time.
const AT_ONCE: usize = 8;

/// The task that publishes.
pub(crate) struct Publisher<'a> {
    pub(crate) reader: &'a ClaimsReader,
    pub(crate) lanes: &'a Lanes,
    pub(crate) offsets: QueueOffsets,
    pub(crate) producer: &'a Producer,
    pub(crate) names: &'a TopicNames,
    pub(crate) clock: &'a Clock,
    /// Whether this process has left the group.
    pub(crate) has_left: watch::Receiver<bool>,
}

impl Publisher<'_> {
    /// Publishes for ever. A failed report is replaced by the next, newer one.
    pub(crate) async fn run(&self) {
        let mut every = interval(PUBLISH_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let backlog = match self.publish().await {
                Ok(backlog) => backlog.map_or(f64::NAN, |backlog| backlog as f64),
                Err(error) => {
                    let error = runtime::report(&error);
                    runtime::seldom!("how far queued claims have landed is not published", error);
                    f64::NAN
                }
            };
            gauge!(BACKLOG.name).set(backlog);
            gauge!(OLDEST.name).set(self.oldest());
        }
    }

    /// Age of the oldest message that is being landed, in seconds.
    fn oldest(&self) -> f64 {
        if *self.has_left.borrow() {
            return f64::NAN;
        }
        let age = |at| crate::delay(self.clock.now(), at);
        self.lanes.oldest().map(age).unwrap_or_default().as_secs_f64()
    }

    /// Publishes the progress of each partition that changed, and returns how many messages wait on all of them; `None`
    /// before the first assignment, and while the partitions are lost or left to others, since they may have no owner
    /// then.
    async fn publish(&self) -> Result<Option<i64>, TopicError> {
        let assignment = self.reader.rebalances().borrow().clone();
        let owned = assignment.of(&self.names.claims());
        self.lanes.keep(&owned);
        if !assignment.stands() || *self.has_left.borrow() {
            return Ok(None);
        }
        let publishing = owned.into_iter().map(|partition| self.publish_one(partition)).collect();
        publish_all(publishing).await.map(Some)
    }

    /// Publishes the progress of one partition if it changed, and returns how many messages wait on it.
    async fn publish_one(&self, partition: i32) -> Result<i64, TopicError> {
        if !self.lanes.is_known(partition) {
            self.lanes.learn(partition, self.offsets.committed(partition).await?);
        }
        let end = self.offsets.end(partition).await?;
        let now = Instant::now();
        let at_ms = self.clock.now().timestamp_millis();
        let Some((progress, is_news)) = self.lanes.progress(partition, end, now, at_ms) else {
            return Ok(0);
        };
        if is_news {
            let topic = self.names.claim_progress();
            let key = progress.key();
            let key = key.as_bytes();
            let payload = progress.encode();
            self.producer.send(&topic, None, key, &payload, &[]).await?;
            self.lanes.published(progress);
        }
        Ok(progress.end - progress.committed)
    }
}

/// Publishes all partitions concurrently, and returns the sum. A partition that fails or takes long, perhaps because it
/// has no leader, delays no other. The first error is returned at the end.
async fn publish_all<E>(publishing: Vec<impl Future<Output = Result<i64, E>>>) -> Result<i64, E> {
    let mut sum = 0;
    let mut failed = None;
    let mut published = stream::iter(publishing).buffer_unordered(AT_ONCE);
    while let Some(published) = published.next().await {
        match published {
            Ok(waiting) => sum += waiting,
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(sum), Err)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use devstack::TestServers;
    use topic::{Assignment, ConsumerOptions, ProducerOptions, TopicLayout, ensure_topics};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn before_its_first_assignment_a_lander_does_not_say_that_nothing_waits() {
        let scope = TestServers::shared().scope("lander unassigned");
        let brokers = &scope.endpoints.kafka_brokers;
        let names = &TopicNames::new(&scope.topic_prefix);
        let layout = TopicLayout { partitions: 2, replication: 1 };
        ensure_topics(brokers, names, &layout).await.unwrap();
        let reader = &ClaimsReader::join(brokers, names, ConsumerOptions::default()).await.unwrap();
        let producer = &Producer::connect(brokers, ProducerOptions::default()).await.unwrap();
        let offsets = QueueOffsets::new(brokers, names);
        let lanes = &Lanes::default();
        let clock = &Clock::system();
        let (_, has_left) = watch::channel(false);
        let publisher = Publisher { reader, lanes, offsets, producer, names, clock, has_left };
        assert_eq!(publisher.publish().await.unwrap(), None);
        let mut owned = reader.rebalances();
        // Partitions arrive only inside a read.
        tokio::select! {
            owned = owned.wait_for(Assignment::stands) => drop(owned.unwrap()),
            _ = reader.next_batch(1) => panic!("nothing was sent"),
        }
        assert_eq!(publisher.publish().await.unwrap(), Some(0));
    }

    #[tokio::test]
    async fn a_partition_that_has_no_leader_silences_no_other() {
        let published = RefCell::new(Vec::new());
        let publish = async |partition| {
            published.borrow_mut().push(partition);
            if partition == 3 { Ok(3) } else { Err(partition) }
        };
        let all = publish_all([1, 2, 3].map(&publish).into());
        assert_eq!(all.await, Err(1));
        assert_eq!(*published.borrow(), [1, 2, 3]);
        assert_eq!(publish_all([3, 3].map(&publish).into()).await, Ok(6));
    }
}
