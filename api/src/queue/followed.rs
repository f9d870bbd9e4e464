//! State of the partitions of the claims topic, as this process knows it: from their landers' reports on the topic of
//! progress, and from the claims that it appended itself. Requests and streams read it from memory, however many there
//! are.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;
use topic::{PartitionProgress, TableReader, TopicError};
use tracing::warn;

use super::landing_rate::LandingRate;

/// Maximum reports read from the topic at a time.
const REPORTS_MAX: usize = 500;

/// The partitions that are known.
#[derive(Default)]
pub(crate) struct Followed(Mutex<HashMap<i32, Partition>>);

/// One partition.
struct Partition {
    landing_rate: watch::Sender<Option<LandingRate>>,
    /// Offset behind the last claim that this process appended.
    appended: i64,
}

impl Default for Partition {
    fn default() -> Self {
        Self { landing_rate: watch::Sender::new(None), appended: 0 }
    }
}

impl Followed {
    /// Returns the position and rate of landing of a partition, as last known.
    pub(crate) fn landing_rate(&self, partition: i32) -> Option<LandingRate> {
        *self.lock().get(&partition)?.landing_rate.borrow()
    }

    /// Subscribes to a partition's reports.
    pub(crate) fn subscribe(&self, partition: i32) -> watch::Receiver<Option<LandingRate>> {
        self.lock().entry(partition).or_default().landing_rate.subscribe()
    }

    /// Returns how many claims of a partition wait to be landed.
    pub(super) fn backlog(&self, partition: i32) -> Option<u64> {
        let partitions = self.lock();
        let partition = partitions.get(&partition)?;
        let landing_rate = *partition.landing_rate.borrow();
        Some(landing_rate?.backlog(partition.appended))
    }

    /// Notes that this process appended a claim.
    pub(super) fn appended(&self, partition: i32, offset: i64) {
        let mut partitions = self.lock();
        let partition = partitions.entry(partition).or_default();
        partition.appended = partition.appended.max(offset.saturating_add(1));
    }

    /// Takes a lander's report. Wakes the streams that follow this partition if the report changed anything.
    fn hear(&self, report: &PartitionProgress) {
        let mut partitions = self.lock();
        let partition = partitions.entry(report.partition).or_default();
        partition.landing_rate.send_if_modified(|known| {
            let news = Some(LandingRate::after(*known, report));
            let is_news = *known != news;
            *known = news;
            is_news
        });
    }

    /// Follows the topic of progress. Returns only on an error.
    ///
    /// # Errors
    /// The topic cannot be read. What was known stays, and grows old.
    pub(super) async fn follow(&self, brokers: &str, topic: &str) -> Result<(), TopicError> {
        let mut reader = TableReader::open(brokers, topic).await?;
        loop {
            for message in reader.next_batch(REPORTS_MAX).await? {
                let Some(payload) = message.payload.as_deref() else { continue };
                match PartitionProgress::decode(payload) {
                    Ok(report) => self.hear(&report),
                    Err(error) => warn!(
                        error = runtime::report(&error),
                        "a report of a claim lander was passed over"
                    ),
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Partition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(committed: i64, end: i64, at_ms: i64) -> PartitionProgress {
        PartitionProgress { partition: 3, committed, end, landed_per_s: 0.0, at_ms }
    }

    #[test]
    fn who_waits_for_a_partition_hears_each_report_of_it_once() {
        let followed = Followed::default();
        let mut waiting = followed.subscribe(3);
        assert_eq!((followed.landing_rate(3), followed.backlog(3)), (None, None));
        followed.hear(&report(5, 9, 1_000));
        assert!(waiting.has_changed().unwrap());
        assert_eq!(waiting.borrow_and_update().unwrap().position(8), 3);
        followed.hear(&report(5, 9, 1_000));
        followed.hear(&PartitionProgress { partition: 4, ..report(6, 9, 2_000) });
        assert!(!waiting.has_changed().unwrap(), "nothing new of this partition");
        assert!(followed.landing_rate(4).is_some());
    }

    #[test]
    fn a_backlog_has_what_this_process_appended_before_the_lander_reports_it() {
        let followed = Followed::default();
        followed.appended(3, 99);
        assert_eq!(followed.backlog(3), None, "nothing is known of what has landed");
        followed.hear(&report(50, 60, 1_000));
        assert_eq!(followed.backlog(3), Some(50));
        followed.appended(3, 20);
        assert_eq!(followed.backlog(3), Some(50), "an older append");
    }
}
