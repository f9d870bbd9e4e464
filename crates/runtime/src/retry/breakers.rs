//! Circuit breakers, one per key: after a failure, attempts are limited to one per interval until one succeeds.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Maximum keys kept. Forgetting a key costs only one more failed attempt.
const KEYS_MAX: usize = 10_000;

/// The last attempt of each key whose last attempt failed.
#[derive(Debug)]
pub struct Breakers<K> {
    try_every: Duration,
    failed: Mutex<HashMap<K, Instant>>,
}

impl<K: Eq + Hash> Breakers<K> {
    /// Creates breakers. After a failure, attempts of a key begin at this interval, which bounds how late a recovery is
    /// noticed.
    pub fn new(try_every: Duration) -> Self {
        Self { try_every, failed: Mutex::default() }
    }

    /// Returns whether an attempt may begin now.
    pub fn may_try(&self, key: &K, now: Instant) -> bool {
        match self.lock().get_mut(key) {
            None => true,
            Some(last) if now.saturating_duration_since(*last) >= self.try_every => {
                *last = now;
                true
            }
            Some(_) => false,
        }
    }

    /// Records that an attempt succeeded. Any attempt may begin again.
    pub fn succeeded(&self, key: &K) {
        self.lock().remove(key);
    }

    /// Records that an attempt failed.
    pub fn failed(&self, key: K, now: Instant) {
        let mut failed = self.lock();
        if failed.len() >= KEYS_MAX {
            failed.clear();
        }
        failed.entry(key).or_insert(now);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_one_attempt_at_a_time_begins_until_one_succeeds() {
        let one = &1;
        let other = &2;
        let try_every = Duration::from_secs(5);
        let breakers = Breakers::new(try_every);
        let began = Instant::now();
        let later = began + try_every;
        assert!(breakers.may_try(one, began) && breakers.may_try(one, began));
        breakers.failed(1, began);
        assert!(!breakers.may_try(one, began) && breakers.may_try(other, began));
        assert!(breakers.may_try(one, later) && !breakers.may_try(one, later));
        breakers.failed(1, began);
        assert!(!breakers.may_try(one, later), "a late failure brings no early attempt");
        breakers.succeeded(one);
        assert!(breakers.may_try(one, later) && breakers.may_try(one, later));
    }
}
