//! How long a lander has been waiting for MySQL, for claims to read.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Set while a lander waits for MySQL.
#[derive(Default)]
pub(super) struct Pulse(Mutex<Option<Instant>>);

/// Ends the wait when it is dropped.
pub(super) struct Working<'a>(&'a Pulse);

impl Pulse {
    /// Begins a wait.
    pub(super) fn begin(&self) -> Working<'_> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Working(self)
    }

    /// Returns how long the wait lasts; zero if there is none.
    pub(super) fn lasts(&self) -> Duration {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_until_its_work_is_dropped() {
        let pulse = Pulse::default();
        assert_eq!(pulse.lasts(), Duration::ZERO);
        let working = pulse.begin();
        while pulse.lasts().is_zero() {}
        drop(working);
        assert_eq!(pulse.lasts(), Duration::ZERO);
    }
}
