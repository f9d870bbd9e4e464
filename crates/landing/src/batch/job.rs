//! The admissions of one transaction.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use coupon::{Numbers, TemplateId};
use mysql_store::landing::Landing;

use crate::ids::{IdError, Ids};

/// Most coupons in one transaction. A tenth would suffice for the flush not to be the bottleneck; MySQL's limit of
/// 65,535 placeholders is far above.
pub(crate) const BATCH_COUPONS_MAX: usize = 1000;

/// An admission to land.
#[derive(Clone)]
pub struct Job<T> {
    /// What the caller attaches to it, to recognise its end.
    pub tag: T,
    pub landing: Landing,
    /// The moment for which the end of its hold was computed.
    held_as_of: Instant,
}

/// Admissions that are tried together.
pub(super) struct Group<T> {
    pub(super) jobs: Vec<Job<T>>,
    /// Attempts since the count was restarted.
    pub(super) tries: u32,
    /// Those of them that ended in a conflict.
    pub(super) conflicts: u32,
}

/// Groups `jobs`, in order, into as few transactions as their coupons allow.
pub(super) fn split<T>(jobs: Vec<Job<T>>) -> Vec<Group<T>> {
    let mut groups = Vec::<Group<T>>::new();
    let mut coupons = 0;
    for job in jobs {
        let own = job.coupons();
        coupons += own;
        match groups.last_mut() {
            Some(group) if coupons <= BATCH_COUPONS_MAX => group.jobs.push(job),
            _ => {
                coupons = own;
                groups.push(Group::new(vec![job]));
            }
        }
    }
    groups
}

impl<T> Job<T> {
    /// An admission whose hold, if it has one, was computed for a landing now.
    pub fn new(tag: T, landing: Landing) -> Self {
        Self { tag, landing, held_as_of: Instant::now() }
    }

    pub(crate) fn template(&self) -> TemplateId {
        self.landing.landed.template_id
    }

    pub(crate) fn coupons(&self) -> usize {
        self.landing.landed.coupons.len()
    }

    /// Gives its coupons these numbers of the user.
    pub(crate) fn give_numbers(&mut self, numbers: Numbers) {
        for (coupon, number) in self.landing.landed.coupons.iter_mut().zip(&numbers) {
            coupon.claim_no = i64::from(*number);
        }
        self.landing.admission.numbers = numbers;
    }

    fn give_new_coupon_ids(&mut self, ids: &Ids) -> Result<(), IdError> {
        let unlimited = self.landing.admission.numbers.is_empty();
        for coupon in &mut self.landing.landed.coupons {
            coupon.id = ids.coupon()?;
            if unlimited {
                coupon.claim_no = coupon.id.0;
            }
        }
        Ok(())
    }
}

impl<T> Group<T> {
    pub(super) fn new(jobs: Vec<Job<T>>) -> Self {
        Self { jobs, tries: 0, conflicts: 0 }
    }

    /// Returns the landings of an attempt that begins now. Holds are counted from it, so that waiting for a lock or for
    /// MySQL takes nothing of them.
    pub(super) fn land_now(&mut self) -> Vec<Landing> {
        for job in &mut self.jobs {
            let waited = whole_milliseconds(job.held_as_of.elapsed());
            job.landing.landed.lands_later(waited);
            job.held_as_of += waited.to_std().unwrap_or(Duration::ZERO);
        }
        self.landings()
    }

    pub(super) fn landings(&self) -> Vec<Landing> {
        self.jobs.iter().map(|job| job.landing.clone()).collect()
    }

    /// Returns whether an attempt was refused, by a row or by MySQL.
    pub(super) fn was_refused(&self) -> bool {
        self.tries > self.conflicts
    }

    /// Restarts the count of attempts, because the obstacle is another one now.
    pub(super) fn restart_count(&mut self) {
        self.tries = 0;
        self.conflicts = 0;
    }

    /// Gives new ids to all coupons.
    ///
    /// # Errors
    /// The lease is lost; some coupons have kept their ids.
    pub(super) fn give_new_coupon_ids(&mut self, ids: &Ids) -> Result<(), IdError> {
        self.jobs.iter_mut().try_for_each(|job| job.give_new_coupon_ids(ids))
    }
}

/// Returns a measured time as times are stored.
fn whole_milliseconds(time: Duration) -> TimeDelta {
    TimeDelta::milliseconds(i64::try_from(time.as_millis()).unwrap_or_default())
}
