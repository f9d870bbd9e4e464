//! Publishes how far the lander's partitions are: all that users are told of their place in the queue.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use metrics::gauge;
use runtime::Clock;
use tokio::time::{MissedTickBehavior, interval};
use topic::{ClaimsReader, Producer, QueueOffsets, TopicError, TopicNames};

use crate::{
    lanes::Lanes,
    metrics::{BACKLOG, OLDEST},
};

/// Interval between messages of one partition: what a user who waits sees move.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The task that publishes.
pub(crate) struct Publisher<'a> {
    pub(crate) reader: &'a ClaimsReader,
    pub(crate) lanes: &'a Lanes,
    pub(crate) offsets: QueueOffsets,
    pub(crate) producer: &'a Producer,
    pub(crate) names: &'a TopicNames,
    pub(crate) clock: &'a Clock,
}

impl Publisher<'_> {
    /// Publishes for ever. A failed report is replaced by the next, newer one.
    pub(crate) async fn run(&self) {
        let mut every = interval(TELL_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let backlog = match self.tell().await {
                Ok(backlog) => backlog.map_or(f64::NAN, |backlog| backlog as f64),
                Err(error) => {
                    let error = runtime::report(&error);
                    runtime::seldom!("how far queued claims have landed is not published", error);
                    f64::NAN
                }
            };
            gauge!(BACKLOG.name).set(backlog);
            let age = |at: DateTime<Utc>| (self.clock.now() - at).to_std().unwrap_or_default();
            let oldest = self.lanes.oldest().map(age).unwrap_or_default();
            gauge!(OLDEST.name).set(oldest.as_secs_f64());
        }
    }

    /// Publishes the news of each partition, and returns how many messages wait on all of them; `None` while the
    /// partitions are lost, since nobody may own them then.
    async fn tell(&self) -> Result<Option<i64>, TopicError> {
        let assignment = self.reader.rebalances().borrow().clone();
        let owned = assignment.of(&self.names.claims());
        self.lanes.keep(&owned);
        if assignment.is_lost() {
            return Ok(None);
        }
        let mut backlog = 0;
        for partition in owned {
            if !self.lanes.is_known(partition) {
                self.lanes.learn(partition, self.offsets.committed(partition).await?);
            }
            let end = self.offsets.end(partition).await?;
            let at = (Instant::now(), self.clock.now().timestamp_millis());
            let Some((progress, is_news)) = self.lanes.progress(partition, end, at) else {
                continue;
            };
            backlog += progress.end - progress.committed;
            if is_news {
                let (topic, key) = (self.names.claim_progress(), progress.key());
                let (key, payload) = (key.as_bytes(), progress.encode());
                self.producer.send(&topic, None, key, &payload, &[]).await?;
                self.lanes.told(progress);
            }
        }
        Ok(Some(backlog))
    }
}
