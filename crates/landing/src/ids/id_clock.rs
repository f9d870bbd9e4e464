//! The clock for ids: monotonic, and corrected forwards only.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ferroid::time::{MonotonicClock, TWITTER_EPOCH, TimeSource};

/// Milliseconds of the process's monotonic clock, which starts at the wall clock's time, plus a correction if the wall
/// clock was behind then. Clones share the correction.
#[derive(Debug, Clone)]
pub(crate) struct IdClock {
    monotonic: MonotonicClock<1>,
    /// How far the wall clock was behind at the start, as far as known. Only rises.
    behind_ms: Arc<AtomicU64>,
}

impl IdClock {
    pub(crate) fn new() -> Self {
        Self { monotonic: MonotonicClock::default(), behind_ms: Arc::default() }
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn ms(&self) -> i64 {
        let ms = TimeSource::<u64>::current_millis(&self.monotonic);
        let ms = ms + self.behind_ms.load(Ordering::Relaxed);
        ms.cast_signed()
    }

    /// Continues from `ms` milliseconds since 1970, if that is ahead.
    pub(crate) fn go_on_from(&self, ms: i64) {
        let ahead = (ms - self.ms()).max(0).unsigned_abs();
        self.behind_ms.fetch_add(ahead, Ordering::Relaxed);
    }
}

impl TimeSource<u64> for IdClock {
    /// Returns milliseconds since the epoch of the id layout.
    fn current_millis(&self) -> u64 {
        let epoch = u64::try_from(TWITTER_EPOCH.as_millis()).unwrap_or_default();
        self.ms().unsigned_abs().saturating_sub(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_goes_forwards_only_and_all_clones_follow_it() {
        let clock = IdClock::new();
        let clone = clock.clone();
        let start = clock.ms();
        clock.go_on_from(start - 600_000);
        assert!(clock.ms() >= start);
        clock.go_on_from(start + 600_000);
        assert!(clone.ms() >= start + 600_000);
        let ids = TimeSource::<u64>::current_millis(&clone);
        let epoch = u64::try_from(TWITTER_EPOCH.as_millis()).unwrap();
        assert!(ids + epoch >= (start + 600_000).unsigned_abs());
    }
}
