//! The claims of one transaction.

use std::time::{Duration, Instant};

use coupon::{Numbers, TemplateId};
use mysql_store::queued_landing::QueuedLanding;

use crate::{
    ids::{IdError, Ids},
    lander::{self, BATCH_COUPONS_MAX},
};

/// A claim to land.
pub(super) struct QueuedJob {
    /// Its place in the batch.
    pub(super) index: usize,
    pub(super) landing: QueuedLanding,
    /// Whether it was tried alone as often as allowed.
    pub(super) given_up: bool,
    /// The moment from which its hold is counted.
    held_as_of: Instant,
}

/// Claims that are tried together.
#[derive(Default)]
pub(super) struct Group {
    pub(super) jobs: Vec<QueuedJob>,
    /// Attempts since the group last shrank.
    pub(super) tries: u32,
    /// Attempts that ended in a conflict.
    pub(super) conflicts: u32,
}

/// Groups `jobs`, in order, into as few transactions as their coupons allow.
pub(super) fn split(jobs: Vec<QueuedJob>) -> Vec<Group> {
    let (mut groups, mut coupons) = (Vec::<Group>::new(), 0);
    for job in jobs {
        let own = job.landing.landed.coupons.len();
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

impl QueuedJob {
    pub(super) fn new(index: usize, landing: QueuedLanding) -> Self {
        Self { index, landing, given_up: false, held_as_of: Instant::now() }
    }

    pub(super) fn template(&self) -> TemplateId {
        self.landing.landed.template_id
    }

    /// Gives its coupons these numbers of the user.
    pub(super) fn give_numbers(&mut self, numbers: Numbers) {
        for (coupon, number) in self.landing.landed.coupons.iter_mut().zip(&numbers) {
            coupon.claim_no = i64::from(*number);
        }
        self.landing.queued.admission.numbers = numbers;
    }

    fn give_new_coupon_ids(&mut self, ids: &Ids) -> Result<(), IdError> {
        let unlimited = self.landing.queued.admission.numbers.is_empty();
        for coupon in &mut self.landing.landed.coupons {
            coupon.id = ids.coupon()?;
            if unlimited {
                coupon.claim_no = coupon.id.0;
            }
        }
        Ok(())
    }
}

impl Group {
    pub(super) fn new(jobs: Vec<QueuedJob>) -> Self {
        Self { jobs, ..Self::default() }
    }

    /// Returns the landings of an attempt that begins now. Holds are counted from it, so that waiting for a lock or for
    /// MySQL takes nothing of them.
    pub(super) fn land_now(&mut self) -> Vec<QueuedLanding> {
        for job in &mut self.jobs {
            let waited = lander::delta(job.held_as_of.elapsed());
            job.landing.landed.lands_later(waited);
            job.held_as_of += waited.to_std().unwrap_or(Duration::ZERO);
        }
        self.landings()
    }

    pub(super) fn landings(&self) -> Vec<QueuedLanding> {
        self.jobs.iter().map(|job| job.landing.clone()).collect()
    }

    /// Restarts the count of attempts, because the obstacle is another one now.
    pub(super) fn changed(&mut self) {
        (self.tries, self.conflicts) = (0, 0);
    }

    /// Gives new ids to all coupons.
    ///
    /// # Errors
    /// The lease is lost; some coupons have kept their ids.
    pub(super) fn give_new_coupon_ids(&mut self, ids: &Ids) -> Result<(), IdError> {
        self.jobs.iter_mut().try_for_each(|job| job.give_new_coupon_ids(ids))
    }
}
