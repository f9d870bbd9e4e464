//! The progress and the landing rate of each of the lander's partitions.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use chrono::{DateTime, Utc};
use topic::PartitionProgress;

use crate::landing_rate::LandingRate;

/// Share by which a rate must change to be published while nothing lands.
const RATE_NEWS: f64 = 0.1;

/// The partitions of this lander.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: Mutex<BTreeMap<i32, Lane>>,
}

#[derive(Debug, Default)]
struct Lane {
    /// Next offset to land, if known.
    next: Option<i64>,
    /// When the oldest message of the current batch was published.
    oldest: Option<DateTime<Utc>>,
    rate: LandingRate,
    /// The progress that was published last.
    published: Option<PartitionProgress>,
}

impl Lanes {
    /// Records the start of a batch, and the offset and the time of its first message. A lower offset than before means
    /// that the topic was recreated; the backlog then counts from there.
    pub(crate) fn begin(&self, partition: i32, first: i64, oldest: DateTime<Utc>, now: Instant) {
        let mut lanes = self.lock();
        let lane = lanes.entry(partition).or_default();
        lane.next = lane.next.map(|next| next.min(first));
        lane.oldest = Some(oldest);
        lane.rate.begin(now);
    }

    /// Records the end of a batch of `messages`, and the next offset of its partition.
    pub(crate) fn end(&self, partition: i32, next: i64, messages: usize, now: Instant) {
        let mut lanes = self.lock();
        let lane = lanes.entry(partition).or_default();
        lane.next = lane.next.max(Some(next));
        lane.oldest = None;
        lane.rate.end(now, messages);
    }

    /// Forgets partitions other than these: their new owner publishes their progress.
    pub(crate) fn keep(&self, partitions: &[i32]) {
        self.lock().retain(|partition, _| partitions.contains(partition));
    }

    /// Returns whether the progress of a partition is known.
    pub(crate) fn is_known(&self, partition: i32) -> bool {
        self.lock().get(&partition).is_some_and(|lane| lane.next.is_some())
    }

    /// Records a partition's progress, from the offset that its group has committed.
    pub(crate) fn learn(&self, partition: i32, committed: i64) {
        let mut lanes = self.lock();
        let lane = lanes.entry(partition).or_default();
        lane.next = lane.next.max(Some(committed));
    }

    /// Returns the progress of a partition that ends at `end`, and whether it is worth publishing. `None`: the progress
    /// is not known.
    pub(crate) fn progress(
        &self,
        partition: i32,
        end: i64,
        now: Instant,
        at_ms: i64,
    ) -> Option<(PartitionProgress, bool)> {
        let mut lanes = self.lock();
        let lane = lanes.get_mut(&partition)?;
        let committed = lane.next?;
        // Claims that landed after `end` was read may be beyond it.
        let end = end.max(committed);
        let landed_per_s = lane.rate.measure(now);
        let progress = PartitionProgress { partition, committed, end, landed_per_s, at_ms };
        let is_news = lane.published.is_none_or(|published| {
            let by = (published.landed_per_s - landed_per_s).abs();
            (published.committed, published.end) != (committed, end)
                || committed < end && by > published.landed_per_s * RATE_NEWS
        });
        Some((progress, is_news))
    }

    /// Records the progress that was published.
    pub(crate) fn published(&self, progress: PartitionProgress) {
        if let Some(lane) = self.lock().get_mut(&progress.partition) {
            lane.published = Some(progress);
        }
    }

    /// Returns when the oldest message of all current batches was published.
    pub(crate) fn oldest(&self) -> Option<DateTime<Utc>> {
        self.lock().values().filter_map(|lane| lane.oldest).min()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(lanes: &Lanes, end: i64, now: Instant) -> Option<(i64, i64, bool)> {
        let (progress, is_news) = lanes.progress(3, end, now, 0)?;
        lanes.published(progress);
        Some((progress.committed, progress.end, is_news))
    }

    #[test]
    fn progress_is_told_on_a_change() {
        let lanes = Lanes::default();
        let now = Instant::now();
        assert_eq!(seen(&lanes, 5, now), None, "how far it is must be asked for");
        lanes.learn(3, 5);
        assert!(lanes.is_known(3));
        assert_eq!(seen(&lanes, 5, now), Some((5, 5, true)), "the first time");
        assert_eq!(seen(&lanes, 5, now), Some((5, 5, false)));
        assert_eq!(seen(&lanes, 9, now), Some((5, 9, true)));
        lanes.begin(3, 5, DateTime::UNIX_EPOCH, now);
        assert_eq!(lanes.oldest(), Some(DateTime::UNIX_EPOCH));
        let later = now + Duration::from_secs(1);
        lanes.end(3, 9, 4, later);
        assert_eq!(lanes.oldest(), None);
        assert_eq!(seen(&lanes, 8, later), Some((9, 9, true)), "the end was asked for before");
        lanes.begin(3, 9, DateTime::UNIX_EPOCH, later);
        let now = later + Duration::from_secs(1);
        assert_eq!(seen(&lanes, 12, now), Some((9, 12, true)));
        let now = now + Duration::from_secs(1);
        assert_eq!(seen(&lanes, 12, now), Some((9, 12, true)), "nothing lands: it gets slower");
    }

    #[test]
    fn what_waits_in_a_topic_that_was_made_anew_is_shown() {
        let lanes = Lanes::default();
        let now = Instant::now();
        lanes.learn(3, 500);
        assert_eq!(seen(&lanes, 500, now), Some((500, 500, true)));
        lanes.begin(3, 0, DateTime::UNIX_EPOCH, now);
        assert_eq!(seen(&lanes, 9, now), Some((0, 9, true)));
        lanes.end(3, 2, 2, now);
        assert_eq!(seen(&lanes, 9, now), Some((2, 9, true)));
    }

    #[test]
    fn what_another_lander_goes_on_with_is_forgotten() {
        let lanes = Lanes::default();
        lanes.learn(3, 5);
        lanes.learn(4, 5);
        lanes.keep(&[4]);
        assert!(!lanes.is_known(3) && lanes.is_known(4));
    }
}
