//! Position and rate of landing of a partition of the claims topic, from its lander's report of each second. Pure.
//!
//! The rate is measured only while claims wait: a partition that keeps up lands no faster than claims come, and that
//! says nothing of how long a crowd will wait.

use chrono::{DateTime, Utc};
use landing::queue::QueuePosition;
use topic::PartitionProgress;

/// Time from a claim that waits for no other to its outcome, in milliseconds: a landing, and the lander's next report.
const TURN_MS: f64 = 100.0;

/// Time from a landing until it is known while claims wait, in milliseconds: half of the second between two reports of the
/// lander.
const REPORTED_MS: f64 = 500.0;

/// Claims landed a second that are assumed while no rate is known: MySQL's own rate for single claims, so estimates are
/// rather too long.
const UNMEASURED_PER_S: f64 = 1_000.0;

/// Part of a new sample in the rate. Half: a lander that slows down is noticed within seconds, and one slow batch
/// doubles no estimate.
const SAMPLE_WEIGHT: f64 = 0.5;

/// Longest span of a sample. A lander reports each second while it lands; over a longer time it may have stood still.
const SAMPLE_MS_MAX: i64 = 5_000;

/// Age of a report, in milliseconds, after which a partition in which claims wait is taken for stopped: nothing lands, so
/// there is no estimate.
const SILENT_MS_MAX: i64 = 5_000;

/// Time within which the relay appends an accepted claim that the api has not appended itself, in milliseconds: usually
/// milliseconds.
const APPENDED_MS: i64 = 2_000;

/// Progress and rate of a partition, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LandingRate {
    /// Offset of the next claim to be landed.
    committed: i64,
    /// Offset behind the last claim, as the lander knew it.
    end: i64,
    /// Claims landed a second while some waited. `None`: not measured.
    per_s: Option<f64>,
    /// When the lander said so, in milliseconds since 1970.
    at_ms: i64,
}

impl LandingRate {
    /// Combines a report with what was known. A report that is no newer changes nothing. One that has landed more is
    /// newer whatever its time: it may be of another lander, whose clock is behind.
    pub(crate) fn after(known: Option<Self>, report: &PartitionProgress) -> Self {
        let PartitionProgress { committed, end, at_ms, .. } = *report;
        let said = Some(report.landed_per_s).filter(|rate| rate.is_finite() && *rate > 0.0);
        let Some(known) = known else {
            let per_s = said.filter(|_| committed < end);
            return Self { committed, end, per_s, at_ms };
        };
        if at_ms <= known.at_ms && committed <= known.committed {
            return known;
        }
        let sample = known.sample(committed, end, at_ms);
        let per_s = match (known.per_s, sample) {
            (Some(rate), Some(sample)) => Some(rate + (sample - rate) * SAMPLE_WEIGHT),
            (rate, sample) => sample.or(rate).or(said.filter(|_| committed < end)),
        };
        Self { committed, end, per_s, at_ms }
    }

    /// Returns the rate since the report before, if claims waited all the time, or it is above the known one.
    fn sample(&self, committed: i64, end: i64, at_ms: i64) -> Option<f64> {
        let landed = committed - self.committed;
        let ms = at_ms - self.at_ms;
        if landed < 0 || !(1..=SAMPLE_MS_MAX).contains(&ms) {
            return None;
        }
        let rate = landed as f64 * 1_000.0 / ms as f64;
        let waited = self.committed < self.end && committed < end;
        let is_faster = self.per_s.is_some_and(|known| rate > known);
        (waited || is_faster).then_some(rate)
    }

    /// Returns how many claims land before the one at `offset`.
    pub(crate) fn position(&self, offset: i64) -> u64 {
        u64::try_from(offset.saturating_sub(self.committed)).unwrap_or(0)
    }

    /// Returns whether the claim at `offset` has its outcome.
    pub(crate) fn is_beyond(&self, offset: i64) -> bool {
        self.committed > offset
    }

    /// Returns how many claims wait before `end` or the reported end, whichever is later.
    pub(crate) fn backlog(&self, end: i64) -> u64 {
        self.position(self.end.max(end))
    }

    /// Returns the time until a claim with this many before it has its outcome, in milliseconds. `None`: claims wait, and
    /// nothing lands.
    pub(crate) fn estimated_ms(&self, position: u64, now: DateTime<Utc>) -> Option<u64> {
        let waiting = self.committed < self.end;
        let age_ms = now.timestamp_millis().saturating_sub(self.at_ms).max(0);
        if waiting && age_ms > SILENT_MS_MAX {
            return None;
        }
        let per_s = match self.per_s {
            Some(rate) if rate > 0.0 => rate,
            Some(_) if waiting => return None,
            Some(_) | None => UNMEASURED_PER_S,
        };
        // What has landed since the report is not in the position.
        let since_ms = if waiting { age_ms as f64 } else { 0.0 };
        let ms = position as f64 * 1_000.0 / per_s - since_ms;
        let known_ms = if waiting { REPORTED_MS } else { TURN_MS };
        Some((ms.max(0.0) + known_ms) as u64)
    }
}

/// When a claim is due: its partition has landed beyond it, so MySQL has its outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    place: Option<i64>,
    /// For a claim without a place: it is probably at or before this offset.
    guessed: Option<i64>,
    /// When it was accepted, or last found without an outcome: only later reports count. Milliseconds since 1970.
    since_ms: i64,
}

impl Due {
    pub(crate) fn new(place: Option<QueuePosition>, accepted_at: DateTime<Utc>) -> Self {
        let place = place.map(|place| place.offset);
        Self { place, guessed: None, since_ms: accepted_at.timestamp_millis() }
    }

    /// Returns whether the claim is due. Without a place this is a guess: the claim is due once nothing waits any more,
    /// or once all claims have landed that waited at the time by which the relay should have appended it.
    pub(crate) fn is_due(&mut self, pace: &LandingRate) -> bool {
        if let Some(offset) = self.place.or(self.guessed) {
            return pace.is_beyond(offset);
        }
        let is_later = pace.at_ms > self.since_ms;
        if pace.committed < pace.end && pace.at_ms > self.since_ms + APPENDED_MS {
            self.guessed = Some(pace.end - 1);
        }
        is_later && pace.committed >= pace.end
    }

    /// Notes that the claim had no outcome at the time of this report.
    pub(crate) fn was_looked_at(&mut self, pace: Option<LandingRate>) {
        self.guessed = None;
        self.since_ms = pace.map_or(self.since_ms, |pace| pace.at_ms.max(self.since_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(committed: i64, end: i64, at_ms: i64) -> PartitionProgress {
        PartitionProgress { partition: 3, committed, end, landed_per_s: 0.0, at_ms }
    }

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    /// What is known after these reports.
    fn pace(reports: &[PartitionProgress]) -> LandingRate {
        reports.iter().fold(None, |known, report| Some(LandingRate::after(known, report))).unwrap()
    }

    #[test]
    fn the_position_falls_to_nought_and_then_the_outcome_is_there() {
        let pace = pace(&[report(100, 500, 0)]);
        assert_eq!([99, 100, 101, 499].map(|offset| pace.position(offset)), [0, 0, 1, 399]);
        assert_eq!([99, 100].map(|offset| pace.is_beyond(offset)), [true, false]);
        assert_eq!((pace.backlog(0), pace.backlog(700)), (400, 600), "ours may be newer");
    }

    #[test]
    fn an_estimate_is_by_the_rate_at_which_claims_land_while_others_wait() {
        let reports: Vec<_> =
            (0..10).map(|second| report(second * 2_000, 100_000, second * 1_000)).collect();
        let pace = pace(&reports);
        assert_eq!(pace.estimated_ms(20_000, at(9_000)), Some(10_000 + 500));
        assert_eq!(pace.estimated_ms(20_000, at(9_600)), Some(9_400 + 500), "some landed since");
        assert_eq!(pace.estimated_ms(0, at(9_600)), Some(500));
    }

    #[test]
    fn a_partition_that_keeps_up_is_not_taken_for_a_slow_one() {
        let quiet: Vec<_> = (0..10).map(|second| report(second, second, second * 1_000)).collect();
        assert_eq!(pace(&quiet).estimated_ms(1_000, at(9_000)), Some(1_000 + 100));
        assert_eq!(pace(&quiet).estimated_ms(0, at(900_000)), Some(100), "however old it is");
        // It lands fast once it has to.
        let busy = [report(0, 9_000, 0), report(3_000, 9_000, 1_000), report(9_000, 9_000, 2_000)];
        assert_eq!(pace(&busy).per_s, Some(4_500.0));
        let after = [&busy[..], &[report(9_001, 9_001, 3_000)]].concat();
        assert_eq!(pace(&after).per_s, Some(4_500.0), "a quiet second is no sample");
    }

    #[test]
    fn while_claims_wait_and_nothing_lands_there_is_no_estimate() {
        let silent = pace(&[report(0, 9_000, 0), report(2_000, 9_000, 1_000)]);
        assert!(silent.estimated_ms(100, at(1_000 + SILENT_MS_MAX)).is_some());
        assert_eq!(silent.estimated_ms(100, at(1_001 + SILENT_MS_MAX)), None);
        let stuck = pace(&[report(0, 9_000, 0), report(0, 9_000, 1_000)]);
        assert_eq!(stuck.estimated_ms(100, at(1_000)), None);
    }

    #[test]
    fn a_report_that_comes_late_or_twice_changes_nothing_and_a_lander_that_went_back_is_believed() {
        let known = pace(&[report(0, 9_000, 0), report(2_000, 9_000, 1_000)]);
        assert_eq!(LandingRate::after(Some(known), &report(1_000, 9_000, 500)), known);
        assert_eq!(LandingRate::after(Some(known), &report(2_000, 9_000, 1_000)), known);
        let back = LandingRate::after(Some(known), &report(1_500, 9_000, 2_000));
        assert_eq!((back.position(1_600), back.per_s), (100, known.per_s));
    }

    #[test]
    fn a_lander_whose_clock_is_behind_the_one_before_is_heard() {
        let known = pace(&[report(0, 9_000, 60_000), report(2_000, 9_000, 61_000)]);
        let next = LandingRate::after(Some(known), &report(3_000, 9_000, 1_000));
        assert_eq!((next.position(3_000), next.per_s), (0, known.per_s), "no sample across clocks");
        let next = LandingRate::after(Some(next), &report(3_500, 9_000, 2_000));
        assert_eq!((next.position(3_500), next.per_s), (0, Some((2_000.0 + 500.0) / 2.0)));
    }

    #[test]
    fn a_claim_with_a_place_is_due_once_its_partition_is_beyond_it() {
        let mut due = Due::new(Some(QueuePosition { partition: 3, offset: 7 }), at(0));
        assert!(!due.is_due(&pace(&[report(7, 9, 1_000)])));
        assert!(due.is_due(&pace(&[report(8, 9, 1_000)])));
        due.was_looked_at(None);
        assert!(due.is_due(&pace(&[report(8, 9, 1_000)])), "it stays so");
    }

    #[test]
    fn a_claim_without_a_place_is_due_when_what_was_there_has_landed() {
        let mut due = Due::new(None, at(1_000));
        assert!(!due.is_due(&pace(&[report(9, 9, 900)])), "it was not accepted yet");
        assert!(due.is_due(&pace(&[report(9, 9, 1_100)])), "nothing waits");
        assert!(!due.is_due(&pace(&[report(0, 500, 2_000)])), "the relay may be on its way");
        assert!(!due.is_due(&pace(&[report(0, 600, 4_000)])), "it is before 600");
        assert!(!due.is_due(&pace(&[report(599, 9_000, 5_000)])));
        let landed = pace(&[report(600, 9_000, 6_000)]);
        assert!(due.is_due(&landed));
        due.was_looked_at(Some(landed));
        assert!(!due.is_due(&landed), "in vain: the next guess is from a later report");
        assert!(!due.is_due(&pace(&[report(700, 9_000, 9_000)])));
        assert!(due.is_due(&pace(&[report(9_000, 9_500, 10_000)])));
    }

    #[test]
    fn until_something_was_measured_the_landers_own_figure_counts() {
        let said = PartitionProgress { landed_per_s: 500.0, ..report(0, 9_000, 0) };
        assert_eq!(pace(&[said]).estimated_ms(1_000, at(0)), Some(2_000 + 500));
        let wrong = PartitionProgress { landed_per_s: f64::NAN, ..report(0, 9_000, 0) };
        assert_eq!(pace(&[wrong]).estimated_ms(1_000, at(0)), Some(1_000 + 500));
    }
}
