//! How fast a storm is flipped: as fast as MySQL goes while nobody else writes, and beside others
//! only so fast that they hardly notice. The law of expiry holds meanwhile, so lateness harms nobody.
//!
//! What claims and uses wait for is what our own flips wait for too, cores, disk and the binlog's
//! queue, so a flip that takes longer than it could is how we feel the others. While others write,
//! each flip is followed by a rest of so many times its own duration: the rest doubles when a flip
//! was slow and shrinks while flips are quick.

use std::time::Duration;

use mysql_store::expiry::FLIP_MAX;
use tokio::time::Instant;

/// Coupons of one statement while others write: its locks, its flush and its part of the binlog are
/// what a claim may have to wait for, so it is short. Alone, larger ones are quicker by the coupon.
const BESIDE_OTHERS: usize = 128;

/// From so many writing statements a second on, others are at work. Leases and the like stay below.
const OTHERS_PER_SECOND: f64 = 20.0;

/// A flip is slow beyond so many times the quickest one: the twofold latency that others may see.
const SLOW: f64 = 2.0;

/// The longest rest, in durations of the flip before: a tenth of the time is always ours, thousands of
/// flips a second, so that the largest template ends within minutes.
const REST_MAX: f64 = 9.0;

/// The shortest rest while others write: claims come in bursts, and meet us half of the time at most.
const REST_MIN: f64 = 1.0;

/// What a quick flip leaves of the rest: some twenty of them undo one doubling.
const REST_SHRINKS: f64 = 0.97;

/// What the quickest duration grows by with every flip: after a hundred, an old one no longer counts.
const QUICKEST_GROWS: f64 = 1.01;

/// Watches our flips and everybody's writes.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Seconds per coupon of the quickest flip of late.
    quickest: Option<f64>,
    /// How many durations of a flip the rest after it is long, while others write.
    rest: f64,
    /// Flips since the last look.
    own: u64,
    /// When the writes were counted, and to what.
    counted: Option<(Instant, u64)>,
    /// Absent: it is not known yet, and could be.
    others_write: Option<bool>,
}

impl Pace {
    /// The server has counted so many writes, by anybody, up to now.
    pub(crate) fn count_writes(&mut self, all: u64, at: Instant) {
        let own = std::mem::take(&mut self.own);
        let Some((since, before)) = self.counted.replace((at, all)) else { return };
        let others = all.saturating_sub(before).saturating_sub(own) as f64;
        self.others_write = Some(others >= OTHERS_PER_SECOND * (at - since).as_secs_f64());
    }

    /// So many other writing statements were ours.
    pub(crate) fn wrote(&mut self, statements: u64) {
        self.own += statements;
    }

    /// Whether nobody else writes, as far as is known.
    pub(crate) fn is_alone(&self) -> bool {
        self.others_write == Some(false)
    }

    /// The most coupons of the next statement.
    pub(crate) fn chunk(&self) -> usize {
        if self.is_alone() { FLIP_MAX } else { BESIDE_OTHERS }
    }

    /// A statement has flipped `coupons` in `took`: how long to rest now.
    pub(crate) fn rest_after(&mut self, coupons: usize, took: Duration) -> Duration {
        self.own += 1;
        let each = took.as_secs_f64() / coupons.max(1) as f64;
        let quickest = self.quickest.map_or(each, |known| each.min(known * QUICKEST_GROWS));
        self.quickest = Some(quickest);
        let rest = if each > SLOW * quickest { self.rest * 2.0 } else { self.rest * REST_SHRINKS };
        self.rest = rest.clamp(REST_MIN, REST_MAX);
        if self.is_alone() { Duration::ZERO } else { took.mul_f64(self.rest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(10);

    /// The server's writes of a second in which others wrote `others` and we flipped nothing.
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
    fn our_own_flips_are_nobody_elses_writes() {
        let mut pace = Pace::default();
        let at = Instant::now();
        assert_eq!(pace.rest_after(512, QUICK), QUICK, "nothing is known yet");
        pace.count_writes(1_000, at);
        for _ in 0..100 {
            pace.rest_after(512, QUICK);
        }
        pace.count_writes(1_110, at + Duration::from_secs(1));
        assert_eq!(pace.rest_after(512, QUICK), Duration::ZERO, "ten a second are not others");
    }
}
