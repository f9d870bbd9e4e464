//! Waits between attempts: exponential, with jitter, bounded.

use std::time::Duration;

/// Waits that double from `min` to `max`. Jitter spreads out processes that failed at the same moment.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    attempt: u32,
}

impl Backoff {
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), attempt: 0 }
    }

    /// Returns the next wait: a random time between half of the current step and all of it.
    pub fn next_wait(&mut self) -> Duration {
        let step = self.min.saturating_mul(2u32.saturating_pow(self.attempt)).min(self.max);
        self.attempt = self.attempt.saturating_add(1);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Sleeps for [`Backoff::next_wait`].
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_wait()).await;
    }

    /// Starts again at `min`. Call it after a success.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_maximum_and_start_again_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let waits: Vec<_> = (0..40).map(|_| backoff.next_wait()).collect();
        assert!(waits[0] <= Duration::from_millis(100));
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(1)));
        assert!(waits[39] >= Duration::from_millis(500));
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(100));
    }
}
