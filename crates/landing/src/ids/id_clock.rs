//! The clock for ids: monotonic, and corrected forwards only.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use ferroid::time::{TWITTER_EPOCH, TimeSource};
use runtime::Clock;

/// Milliseconds of the process's monotonic clock, which starts at the wall clock's time, plus a correction if the wall
/// clock was behind then. Clones share the correction. The library's own clock is not used: a thread of it wakes a
/// thousand times a second, which costs an idle process four per cent of a core.
#[derive(Debug, Clone)]
pub(crate) struct IdClock {
    started: Instant,
    /// What the wall clock showed at the start, in milliseconds since 1970.
    started_ms: i64,
    /// How far the wall clock was behind at the start, as far as known. Only rises.
    behind_ms: Arc<AtomicU64>,
}

impl IdClock {
    pub(crate) fn new() -> Self {
        let started_ms = Clock::system().now().timestamp_millis();
        Self { started: Instant::now(), started_ms, behind_ms: Arc::default() }
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn ms(&self) -> i64 {
        let since_start = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let behind = self.behind_ms.load(Ordering::Relaxed).cast_signed();
        self.started_ms.saturating_add(since_start).saturating_add(behind)
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
