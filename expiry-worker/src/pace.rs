//! Pace of the flips and returns in a storm: full speed while no other process writes to MySQL; otherwise slow enough that
//! others hardly notice. Late flips are harmless, because every read, use and confirmation checks the deadline. Late returns
//! are not: buyers wait for what comes back.
//!
//! Claims and uses wait for the same resources as our flips (cores, disk and the binlog queue), so a slow flip
//! indicates that they wait too. While others write, each flip is followed by a rest that is a multiple of its
//! duration: the multiple doubles after a slow flip and shrinks while flips are quick. The rest after a return of the
//! maximum size is as long as the return.
//!
//! A statement that is smaller than the maximum rests less, in proportion: what is due outside of a storm, a few coupons
//! at a time, ends at once. It says nothing of how quick the server is either, since most of its duration is the commit,
//! however many coupons it has.

use std::time::Duration;

use coupon::limit::RETURN_COUPONS_MAX;
use mysql_store::expiry::FLIP_MAX;
use tokio::time::Instant;

/// Coupons per statement while others write. A claim may have to wait for the statement's locks,
/// flush and binlog write, so it is short. Larger statements are faster per coupon when no other process
/// writes.
const BESIDE_OTHERS: usize = 128;

/// From this many writing statements per second, others are at work. Leases and the like stay
/// below.
const OTHERS_PER_SECOND: f64 = 20.0;

/// A flip is slow if it takes more than this multiple of the quickest one: others may see at most
/// twice the latency.
const SLOW: f64 = 2.0;

/// The longest rest, as a multiple of the preceding flip's duration. We always keep a tenth of the
/// time, thousands of flips per second, so the largest template ends within minutes.
const REST_MAX: f64 = 9.0;

/// The shortest rest while others write: claims come in bursts, and overlap with our flips at most
/// half of the time.
const REST_MIN: f64 = 1.0;

/// Factor applied to the rest after a quick flip: about twenty of them undo one doubling.
const REST_SHRINKS: f64 = 0.97;

/// Factor by which the quickest duration grows with every flip, so that it is outdated after about
/// a hundred.
const QUICKEST_GROWS: f64 = 1.01;

/// Tracks the duration of our flips and returns, and the server's writes.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Seconds per coupon of the quickest recent flip.
    quickest: Option<f64>,
    /// Rest after a flip while others write, as a multiple of the flip's duration.
    rest: f64,
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

    /// The most coupons for the next statement.
    pub(crate) fn chunk(&self) -> usize {
        if self.is_alone() { FLIP_MAX } else { BESIDE_OTHERS }
    }

    /// How long to rest after returns, of which the largest had `coupons` and the longest took `took`.
    pub(crate) fn rest_after_return(&self, coupons: usize, took: Duration) -> Duration {
        let share = coupons as f64 / RETURN_COUPONS_MAX as f64;
        if self.is_alone() { Duration::ZERO } else { took.mul_f64(share.min(1.0)) }
    }

    /// Records that a flip, or a chunk of a move, changed `coupons` in `took`, and returns how long to rest.
    pub(crate) fn rest_after(&mut self, coupons: usize, took: Duration) -> Duration {
        if coupons >= BESIDE_OTHERS && !self.is_alone() {
            self.judge(took.as_secs_f64() / coupons as f64);
        }
        let share = coupons as f64 / BESIDE_OTHERS as f64;
        if self.is_alone() { Duration::ZERO } else { took.mul_f64(self.rest * share.min(1.0)) }
    }

    /// Lengthens the rest if a large statement took long for each coupon, in seconds, and shortens it otherwise.
    fn judge(&mut self, each: f64) {
        let quickest = self.quickest.map_or(each, |known| each.min(known * QUICKEST_GROWS));
        self.quickest = Some(quickest);
        let rest = if each > SLOW * quickest { self.rest * 2.0 } else { self.rest * REST_SHRINKS };
        self.rest = rest.clamp(REST_MIN, REST_MAX);
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
            assert_eq!(pace.rest_after(512, took), Duration::ZERO);
        }
    }

    #[test]
    fn statements_are_short_beside_others_and_as_long_as_it_is_not_known() {
        let mut pace = Pace::default();
        assert_eq!(pace.chunk(), BESIDE_OTHERS);
        second(&mut pace, 5);
        assert_eq!(pace.chunk(), FLIP_MAX);
        second(&mut pace, 300);
        assert_eq!(pace.chunk(), BESIDE_OTHERS);
    }

    #[test]
    fn beside_others_slow_flips_lengthen_the_rest_and_quick_ones_shorten_it() {
        let mut pace = Pace::default();
        second(&mut pace, 300);
        assert_eq!(pace.rest_after(512, QUICK), QUICK);
        let slow = QUICK * 3;
        let rests: Vec<u32> = (0..5)
            .map(|_| (pace.rest_after(512, slow).as_secs_f64() / slow.as_secs_f64()).round() as u32)
            .collect();
        assert_eq!(rests, [2, 4, 8, 9, 9]);
        for _ in 0..100 {
            pace.rest_after(512, QUICK);
        }
        assert_eq!(pace.rest_after(512, QUICK), QUICK);
        second(&mut pace, 0);
        assert_eq!(pace.rest_after(512, slow), Duration::ZERO);
    }

    #[test]
    fn a_few_coupons_beside_others_hardly_rest_and_do_not_count_as_slow() {
        let mut pace = Pace::default();
        second(&mut pace, 300);
        pace.rest_after(BESIDE_OTHERS, QUICK);
        for coupons in [1, 5, BESIDE_OTHERS / 10] {
            let rest = pace.rest_after(coupons, QUICK);
            assert!(rest <= QUICK / 10, "{rest:?} after {coupons}");
        }
        assert_eq!(pace.rest_after(BESIDE_OTHERS, QUICK), QUICK, "nothing was slow");
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
        assert_eq!(pace.rest_after(512, QUICK), QUICK, "nothing is known yet");
        pace.count_writes(1_000, at);
        for _ in 0..100 {
            pace.wrote(1);
            pace.rest_after(512, QUICK);
        }
        pace.count_writes(1_110, at + Duration::from_secs(1));
        assert_eq!(pace.rest_after(512, QUICK), Duration::ZERO, "ten a second are not others");
    }
}
