//! Templates whose claims the queue does not take at the moment, because their partition has no leader or too few
//! copies. Each attempt waits for seconds and keeps a turn to publish meanwhile, and other templates need the turns. So
//! after a failure one claim at a time finds out whether the partition is back; the others are left to the relay.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use coupon::TemplateId;

/// Interval between two attempts. It is how late a partition that is back is noticed.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// Templates that are remembered. Those that were forgotten only wait once more.
const TEMPLATES_MAX: usize = 10_000;

/// The last attempt of each template whose last publication failed.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<HashMap<TemplateId, Instant>>);

impl Unanswered {
    /// Returns whether a claim of the template is to be published now.
    pub(super) fn may_try(&self, template: TemplateId, now: Instant) -> bool {
        match self.lock().get_mut(&template) {
            None => true,
            Some(last) if now.saturating_duration_since(*last) >= TRY_EVERY => {
                *last = now;
                true
            }
            Some(_) => false,
        }
    }

    pub(super) fn answered(&self, template: TemplateId) {
        self.lock().remove(&template);
    }

    pub(super) fn failed(&self, template: TemplateId, now: Instant) {
        let mut failed = self.lock();
        if failed.len() >= TEMPLATES_MAX {
            failed.clear();
        }
        failed.entry(template).or_insert(now);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TemplateId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_one_claim_at_a_time_tries_until_one_is_taken() {
        let (one, other) = (TemplateId(1), TemplateId(2));
        let (unanswered, began) = (Unanswered::default(), Instant::now());
        let later = began + TRY_EVERY;
        assert!(unanswered.may_try(one, began) && unanswered.may_try(one, began));
        unanswered.failed(one, began);
        assert!(!unanswered.may_try(one, began) && unanswered.may_try(other, began));
        assert!(unanswered.may_try(one, later) && !unanswered.may_try(one, later));
        unanswered.failed(one, began);
        assert!(!unanswered.may_try(one, later), "a late failure brings no early attempt");
        unanswered.answered(one);
        assert!(unanswered.may_try(one, later) && unanswered.may_try(one, later));
    }
}
