//! Pace of the flips and returns in a storm: full speed while no other process writes to MySQL; otherwise slow enough that
//! others hardly notice. Late flips are harmless, because every read, use and confirmation checks the deadline. Late returns
//! are not: buyers wait for what comes back.
//!
//! Claims and uses wait for the same cores, disk and binlog queue as our statements. So while others write, each flip of
//! the maximum size is followed by a rest that is a multiple of its duration: on a busy server both are longer. The rest
//! after a return of the maximum size is as long as the return.
//!
//! A statement that is smaller than the maximum rests less, in proportion: what is due outside of a storm, a few coupons
//! at a time, ends at once.

use std::time::Duration;

use coupon::limit::RETURN_COUPONS_MAX;
use mysql_store::expiry::FLIP_MAX;
use tokio::time::Instant;

/// From this many writing statements per second, others are at work. Leases and the like stay
/// below.
const OTHERS_PER_SECOND: f64 = 20.0;

/// The rest after a flip beside others, as a multiple of its duration (decision 0098 has the figures for others).
const REST: f64 = 2.0;

/// Tracks the server's writes.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Our writing statements since the last count.
    own: u64,
    /// When the writes were last counted, and the result.
    counted: Option<(Instant, u64)>,
    /// `None` until known; treated as true.
    others_write: Option<bool>,
}

impl Pace {
    /// Records the server's total write count at `at`.
    pub(crate) fn count_writes(&mut self, all: u64, at: Instant) {
        let own = std::mem::take(&mut self.own);
        let Some((since, before)) = self.counted.replace((at, all)) else { return };
        let others = all.saturating_sub(before).saturating_sub(own) as f64;
        self.others_write = Some(others >= OTHERS_PER_SECOND * (at - since).as_secs_f64());
    }

    /// Adds writing statements of our own.
    pub(crate) fn wrote(&mut self, statements: u64) {
        self.own += statements;
    }

    /// Whether no other process writes; false while unknown.
    pub(crate) fn is_alone(&self) -> bool {
        self.others_write == Some(false)
    }

    /// How long to rest after a flip, or a chunk of a move, that changed `coupons` in `took`.
    pub(crate) fn rest_after(&self, coupons: usize, took: Duration) -> Duration {
        self.rest(coupons as f64 / FLIP_MAX as f64, took.mul_f64(REST))
    }

    /// How long to rest after returns, of which the largest had `coupons` and the longest took `took`.
    pub(crate) fn rest_after_return(&self, coupons: usize, took: Duration) -> Duration {
        self.rest(coupons as f64 / RETURN_COUPONS_MAX as f64, took)
    }

    /// Returns a share of the rest that a statement of the maximum size has.
    fn rest(&self, share: f64, whole: Duration) -> Duration {
        if self.is_alone() { Duration::ZERO } else { whole.mul_f64(share.min(1.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(10);

    /// Simulates one second in which others wrote `others` statements and we flipped nothing.
    fn second(pace: &mut Pace, others: u64) {
        let (at, all) = pace.counted.unwrap_or((Instant::now(), 0));
        pace.count_writes(all, at);
        pace.count_writes(all + others, at + Duration::from_secs(1));
    }

    #[test]
    fn alone_there_is_no_rest_however_slow_the_server() {
        let mut pace = Pace::default();
        second(&mut pace, 5);
        for took in [QUICK, QUICK * 10, QUICK * 100] {
            assert_eq!(pace.rest_after(FLIP_MAX, took), Duration::ZERO);
            assert_eq!(pace.rest_after_return(RETURN_COUPONS_MAX, took), Duration::ZERO);
        }
    }

    #[test]
    fn beside_others_and_as_long_as_it_is_not_known_flips_rest_as_their_duration_says() {
        let mut pace = Pace::default();
        assert_eq!(pace.rest_after(FLIP_MAX, QUICK), QUICK * 2);
        second(&mut pace, 300);
        for took in [QUICK, QUICK * 3, QUICK * 100] {
            assert_eq!(pace.rest_after(FLIP_MAX, took), took * 2);
        }
        second(&mut pace, 0);
        assert_eq!(pace.rest_after(FLIP_MAX, QUICK), Duration::ZERO);
    }

    #[test]
    fn a_few_coupons_beside_others_hardly_rest() {
        let mut pace = Pace::default();
        second(&mut pace, 300);
        for coupons in [1, 5, FLIP_MAX / 20] {
            let rest = pace.rest_after(coupons, QUICK);
            assert!(rest <= QUICK / 10, "{rest:?} after {coupons}");
        }
    }

    #[test]
    fn returns_have_half_of_the_time_beside_others_and_a_lone_one_hardly_rests() {
        let mut pace = Pace::default();
        second(&mut pace, 300);
        for took in [QUICK, QUICK * 3, QUICK * 100] {
            assert_eq!(pace.rest_after_return(RETURN_COUPONS_MAX, took), took);
            let lone = pace.rest_after_return(1, took);
            assert!(lone < took / 100, "{lone:?}");
        }
        second(&mut pace, 0);
        assert_eq!(pace.rest_after_return(RETURN_COUPONS_MAX, QUICK), Duration::ZERO);
    }

    #[test]
    fn our_own_flips_do_not_count_as_other_writes() {
        let mut pace = Pace::default();
        let at = Instant::now();
        assert_eq!(pace.rest_after(FLIP_MAX, QUICK), QUICK * 2, "nothing is known yet");
        pace.count_writes(1_000, at);
        for _ in 0..100 {
            pace.wrote(1);
        }
        pace.count_writes(1_110, at + Duration::from_secs(1));
        assert_eq!(pace.rest_after(FLIP_MAX, QUICK), Duration::ZERO, "ten a second are not others");
    }
}
