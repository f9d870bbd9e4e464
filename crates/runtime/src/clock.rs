//! The wall clock as a value, so that everything below a binary takes time as an argument.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use chrono::{DateTime, SubsecRound, TimeZone, Utc};

/// The time source of a process: the system clock, or one that a test sets.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// Milliseconds since 1970, set by a test. `None`: the system clock.
    manual_ms: Option<Arc<AtomicI64>>,
}

impl Clock {
    pub fn system() -> Self {
        Self::default()
    }

    /// Returns a clock that stays at `now` until [`Clock::set`] moves it.
    pub fn manual(now: DateTime<Utc>) -> Self {
        Self { manual_ms: Some(Arc::new(AtomicI64::new(now.timestamp_millis()))) }
    }

    /// Moves a manual clock. Has no effect on the system clock.
    pub fn set(&self, now: DateTime<Utc>) {
        if let Some(ms) = &self.manual_ms {
            ms.store(now.timestamp_millis(), Ordering::SeqCst);
        }
    }

    /// Returns the current time in whole milliseconds, the resolution of every stored time (`datetime(3)`).
    pub fn now(&self) -> DateTime<Utc> {
        match &self.manual_ms {
            Some(ms) => Utc
                .timestamp_millis_opt(ms.load(Ordering::SeqCst))
                .single()
                .unwrap_or(DateTime::UNIX_EPOCH),
            None => {
                #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
                let now = Utc::now();
                now.trunc_subsecs(3)
            }
        }
    }
}
