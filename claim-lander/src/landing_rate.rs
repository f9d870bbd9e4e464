//! How many claims of a partition end in a second while there are claims to land.
//!
//! Idle time does not count: an idle lander is not slow, and keeps its last rate.

use std::time::{Duration, Instant};

/// Working time after which earlier measurements hardly count any more.
const WINDOW: Duration = Duration::from_secs(3);

/// The rate of one partition.
#[derive(Debug, Default)]
pub(crate) struct LandingRate {
    /// Start of the part of the present batch that has not been measured yet.
    since: Option<Instant>,
    /// Working time since the last measurement, and the claims that ended in it.
    busy: Duration,
    ended: u64,
    /// Claims in a second; 0 if nothing was measured yet.
    per_s: f64,
}

impl LandingRate {
    /// A batch begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// A batch of `claims` has ended.
    pub(crate) fn end(&mut self, now: Instant, claims: usize) {
        self.count_until(now);
        self.since = None;
        self.ended += claims as u64;
    }

    /// Measures up to now, and returns the recent claims in a second; 0 if unknown.
    pub(crate) fn measure(&mut self, now: Instant) -> f64 {
        self.count_until(now);
        if !self.busy.is_zero() {
            let measured = self.ended as f64 / self.busy.as_secs_f64();
            let weight = (self.busy.as_secs_f64() / WINDOW.as_secs_f64()).min(1.0);
            let is_first = self.per_s == 0.0;
            self.per_s += (measured - self.per_s) * if is_first { 1.0 } else { weight };
            (self.busy, self.ended) = (Duration::ZERO, 0);
        }
        self.per_s
    }

    fn count_until(&mut self, now: Instant) {
        if let Some(since) = &mut self.since {
            self.busy += now.saturating_duration_since(*since);
            *since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounded.
    fn measure(rate: &mut LandingRate, now: Instant) -> i64 {
        rate.measure(now).round() as i64
    }

    #[test]
    fn the_pace_is_that_of_the_time_with_work() {
        let mut rate = LandingRate::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(measure(&mut rate, at(0)), 0, "unknown");
        rate.begin(at(1_000));
        rate.end(at(1_500), 400);
        assert_eq!(measure(&mut rate, at(2_000)), 800);
        assert_eq!(measure(&mut rate, at(60_000)), 800, "an idle lander is not slow");
        rate.begin(at(60_000));
        rate.end(at(63_000), 600);
        assert_eq!(measure(&mut rate, at(63_000)), 200, "and a slow one is");
    }

    #[test]
    fn a_batch_that_does_not_end_lowers_the_pace() {
        let mut rate = LandingRate::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        rate.begin(at(0));
        rate.end(at(1_000), 900);
        assert_eq!(measure(&mut rate, at(1_000)), 900);
        rate.begin(at(1_000));
        assert_eq!(measure(&mut rate, at(2_000)), 600);
        assert_eq!(measure(&mut rate, at(3_000)), 400);
        rate.end(at(3_000), 900);
        assert_eq!(measure(&mut rate, at(3_000)), 400, "it counts with the next time of work");
    }
}
