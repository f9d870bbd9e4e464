//! Reads a template's statistics from their topic: one partition, within limits of time and messages.

use std::{sync::Arc, time::Duration};

use coupon::{MerchantId, TemplateId, partition_of_template};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use topic::{HistorySpan, Reached, STATS_RETENTION, TopicError, read_history};

use super::{
    aggregate::{Aggregate, Span},
    counter::WAIT_MAX,
};
use crate::work_limits::{Place, Places};

/// Reports at a time. Each is a client of Kafka and a thread, may hold some tens of megabytes, and keeps a connection to
/// MySQL busy for seconds.
const TURNS: usize = 4;

/// Reports of one merchant that are under way or next in turn. Its others wait.
const OF_MERCHANT: usize = 2;

/// Reports of all merchants, under way and waiting for a turn. Each waits for a second at most.
const ALL: usize = 64;

/// Interval at which a merchant with its share looks for a place of its own that became free.
const SHARE_LOOK: Duration = Duration::from_millis(20);

/// Longest wait for a turn.
const TURN_MAX: Duration = Duration::from_secs(1);

/// Longest read. With the wait it is shorter than the 8 s of a request that reads.
const READ_MAX: Duration = Duration::from_secs(4);

/// Most messages read, of all templates of the partition: more than are read in [`READ_MAX`].
const SCANNED_MAX: u64 = 10_000_000;

/// How much a process's clock may be set back between counting and sending without a message being missed.
const CLOCK_SLACK_MS: i64 = 60_000;

/// A second's answers are on the topic this many seconds later.
const SENT_AFTER_SECONDS: i64 = 2;

/// Permission to make a report, from its statistics and from MySQL. Each read for it holds a clone until it has ended.
pub(crate) type Turn = Arc<(OwnedSemaphorePermit, Place<MerchantId>)>;

/// Reads the statistics of all processes.
pub(crate) struct History {
    brokers: String,
    topic: String,
    turns: Arc<Semaphore>,
    places: Places<MerchantId>,
}

/// A template's statistics, as far as they are known.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) sums: Aggregate,
    /// The seconds whose messages were read: all of the span unless it is older than the retention or the read came to
    /// a limit. Seconds since 1970, the end exclusive.
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Known {
    /// Returns whether the whole span was read, without unreadable messages.
    pub(crate) fn is_complete(&self) -> bool {
        let span = self.sums.span;
        (self.from, self.to) == (span.from, span.to) && self.sums.unreadable == 0
    }
}

/// Why nothing could be read.
#[derive(Debug)]
pub(crate) enum HistoryError {
    /// Too many reports are being read.
    Busy,
    Topic(TopicError),
}

impl History {
    pub(super) fn new(brokers: &str, topic: String) -> Self {
        let turns = Arc::new(Semaphore::new(TURNS));
        let places = Places::new(ALL, OF_MERCHANT);
        Self { brokers: brokers.to_owned(), topic, turns, places }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// The merchant has its share of turns, or none became free within [`TURN_MAX`].
    pub(crate) async fn turn(&self, merchant: MerchantId) -> Result<Turn, HistoryError> {
        let turn = async {
            let place = loop {
                if let Ok(place) = self.places.take(merchant) {
                    break place;
                }
                sleep(SHARE_LOOK).await;
            };
            Arc::clone(&self.turns).acquire_owned().await.map(|permit| (permit, place))
        };
        match timeout(TURN_MAX, turn).await {
            Ok(Ok(turn)) => Ok(Arc::new(turn)),
            _ => Err(HistoryError::Busy),
        }
    }

    /// Reads a template's statistics of a span. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The topic cannot be read.
    pub(crate) async fn read(
        &self,
        turn: Turn,
        template: TemplateId,
        span: Span,
        now: i64,
    ) -> Result<Known, HistoryError> {
        let wait_ms = i64::try_from(WAIT_MAX.as_millis()).unwrap_or(i64::MAX);
        let asked = HistorySpan {
            from_ms: span.from * 1_000 - CLOCK_SLACK_MS,
            until_ms: span.to * 1_000 + wait_ms + CLOCK_SLACK_MS,
            within: READ_MAX,
            messages_max: SCANNED_MAX,
        };
        // The reading thread keeps the turn: it goes on even if its client leaves.
        let state = (Aggregate::new(template, span), turn);
        let partition = move |partitions| partition_of_template(template, partitions);
        let read = read_history(
            &self.brokers,
            &self.topic,
            partition,
            asked,
            state,
            |(sums, _), key, payload| sums.take(key, payload),
        );
        let ((sums, _turn), reached) = read.await.map_err(HistoryError::Topic)?;
        let kept = i64::try_from(STATS_RETENTION.as_secs()).unwrap_or(i64::MAX);
        let from = span.from.max(now - kept).min(span.to);
        let to = known_to(&reached, from, span.to);
        Ok(Known { sums, from, to })
    }
}

/// Returns the end of the seconds whose messages were all read, unless an outage of Kafka delayed some of them.
fn known_to(reached: &Reached, from: i64, to: i64) -> i64 {
    match reached {
        Reached::End => to,
        Reached::Limit(Some(ms)) => (ms.div_euclid(1_000) - SENT_AFTER_SECONDS).clamp(from, to),
        Reached::Limit(None) => from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_was_cut_off_knows_no_second_whose_messages_came_later() {
        assert_eq!(known_to(&Reached::End, 100, 200), 200);
        assert_eq!(known_to(&Reached::Limit(Some(150_999)), 100, 200), 148);
        assert_eq!(known_to(&Reached::Limit(Some(101_000)), 100, 200), 100);
        assert_eq!(known_to(&Reached::Limit(Some(900_000)), 100, 200), 200);
        assert_eq!(known_to(&Reached::Limit(None), 100, 200), 100);
    }

    #[tokio::test]
    async fn a_turn_lasts_until_all_that_is_read_under_it_has_ended() {
        let history = History::new("127.0.0.1:1", "none".to_owned());
        let mut held = Vec::new();
        for number in 0..TURNS {
            let merchant = MerchantId(i64::from(number >= OF_MERCHANT));
            held.push(history.turn(merchant).await.unwrap());
        }
        let of_mysql = held[0].clone();
        drop(held.swap_remove(0));
        let refused = history.turn(MerchantId(2)).await;
        assert!(matches!(refused, Err(HistoryError::Busy)), "MySQL is still being read");
        drop(of_mysql);
        assert!(history.turn(MerchantId(2)).await.is_ok());
    }

    #[tokio::test]
    async fn a_merchant_waits_for_its_own_turns_while_others_have_theirs() {
        let history = History::new("127.0.0.1:1", "none".to_owned());
        let mut held = Vec::new();
        for _ in 0..OF_MERCHANT {
            held.push(history.turn(MerchantId(1)).await.unwrap());
        }
        let refused = history.turn(MerchantId(1)).await;
        assert!(matches!(refused, Err(HistoryError::Busy)), "it has its share");
        assert!(history.turn(MerchantId(2)).await.is_ok());
        held.pop();
        assert!(history.turn(MerchantId(1)).await.is_ok());
    }
}
