//! When a worker next reads an outbox.

use std::time::Duration;

use tokio::time::Instant;

use crate::leased_names::LEASE;

/// Entries of one read. Their messages are under way together.
pub(crate) const BATCH: usize = 500;

/// How long a worker may hold an entry before another worker takes it over. Longer than a lease, so that a successor
/// under the same name comes first.
pub(crate) const TAKE_OVER_AFTER: Duration = LEASE.saturating_add(Duration::from_secs(2));

/// Interval between searches for entries of workers that died.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(2);

/// Shortest pause, after a read that found something, and longest, after repeated empty reads.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// Pauses after failures. The longest is how late a recovered server is noticed.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The result of one round at an outbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// Entries that were read.
    pub(crate) read: usize,
    /// Whether a read gave as many as were asked for: there may be more.
    pub(crate) is_full: bool,
    /// Time until the relay may publish the first entry that an api may still publish itself.
    pub(crate) young: Option<Duration>,
    /// Whether the worker may still have pending entries of this outbox.
    pub(crate) leftovers: bool,
}

impl Round {
    /// Returns whether new entries may be read too. Those behind a young one are younger still.
    pub(crate) fn reads_on(&self) -> bool {
        !self.is_full && self.young.is_none()
    }

    /// Notes entries that stay pending until the first of them is due.
    pub(crate) fn keep_young(&mut self, due_in: Duration) {
        self.young = Some(self.young.map_or(due_in, |known| known.min(due_in)));
        self.leftovers = true;
    }
}

/// A worker's pace at one outbox.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Time of the next round.
    pub(crate) due: Instant,
    /// Whether the worker's name may have pending entries: left by its last holder, or not published.
    pub(crate) leftovers: bool,
    pause: Duration,
    take_over_at: Instant,
}

impl Pace {
    /// The pace at an outbox that has just got claims.
    pub(crate) fn new(now: Instant) -> Self {
        Self { due: now, leftovers: true, pause: PAUSE.0, take_over_at: now + TAKE_OVER_EVERY }
    }

    /// Returns whether this round also takes over from workers that died.
    pub(crate) fn takes_over(&self, now: Instant) -> bool {
        self.take_over_at <= now
    }

    /// Plans the next round after one that succeeded.
    pub(crate) fn went(&mut self, round: &Round, now: Instant) {
        if self.take_over_at <= now {
            self.take_over_at = now + TAKE_OVER_EVERY;
        }
        self.leftovers = round.leftovers;
        self.pause =
            if round.read > 0 { PAUSE.0 } else { (self.pause * 2).clamp(PAUSE.0, PAUSE.1) };
        self.due = match round.young {
            _ if round.is_full => now,
            Some(due_in) => now + due_in.max(PAUSE.0),
            None => now + self.pause,
        };
    }

    /// Plans the next round after one that failed. Entries of other workers are not taken over for a while: the same
    /// failure probably holds them up.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.leftovers = true;
        self.pause = (self.pause * 2).clamp(RETRY.0, RETRY.1);
        self.due = now + self.pause;
        self.take_over_at = now + self.pause + TAKE_OVER_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outbox_is_read_on_while_it_gives_whole_batches_and_ever_less_often_while_empty() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.went(&Round { read: BATCH, is_full: true, ..Round::default() }, now);
        assert!(pace.due <= now && !pace.leftovers);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            pace.went(&Round::default(), now);
            pauses.push(pace.due - now);
        }
        assert!(pauses.is_sorted() && pauses[0] < PAUSE.1 && pauses[9] == PAUSE.1, "{pauses:?}");
        pace.went(&Round { read: 1, ..Round::default() }, now);
        assert_eq!(pace.due - now, PAUSE.0);
    }

    #[test]
    fn what_an_api_is_about_to_publish_is_left_alone_until_it_is_due() {
        let now = Instant::now();
        let mut round = Round::default();
        assert!(round.reads_on());
        round.keep_young(Duration::from_millis(1_500));
        round.keep_young(Duration::from_millis(1_900));
        assert!(!round.reads_on());
        let mut pace = Pace::new(now);
        pace.went(&round, now);
        assert!(pace.leftovers);
        assert_eq!(pace.due - now, Duration::from_millis(1_500));
    }

    #[test]
    fn after_a_failure_a_worker_takes_nothing_over() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        assert!(!pace.takes_over(now));
        now += TAKE_OVER_EVERY;
        assert!(pace.takes_over(now));
        for _ in 0..20 {
            pace.failed(now);
            assert!(pace.leftovers && !pace.takes_over(pace.due));
        }
        assert_eq!(pace.due - now, RETRY.1);
        now = pace.due;
        pace.went(&Round { read: 1, ..Round::default() }, now);
        assert!(!pace.takes_over(now) && pace.takes_over(now + TAKE_OVER_EVERY));
    }
}
