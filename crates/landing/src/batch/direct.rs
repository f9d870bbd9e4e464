//! Batches of direct claims, whose clients wait for their outcomes.

use coupon::{Decision, LandedClaim, LandingMode, TemplateId};
use mysql_store::StoreError;
use runtime::FailPoints;

use super::{Again, Batch, Ends, Job, Points};
use crate::metric;

/// The outcome of one admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It landed now.
    Landed(LandedClaim),
    /// Existing rows in the database decided it.
    Decided(Decision),
    /// It could not be landed, for an unknown reason. It must be fenced before it is released.
    Undecided,
}

/// A batch of direct claims. Its fail points are `landing.before_begin`, those of
/// [`mysql_store::landing::land_by_way_of`], `landing.after_commit`, `landing.locked` and `landing.before_reread`.
pub type DirectBatch<T> = Batch<Direct<T>>;

/// The outcomes so far.
pub struct Direct<T> {
    done: Vec<(T, Outcome)>,
    /// Admissions of templates whose stock row is locked, to be landed apart from others.
    aside: Vec<Job<T>>,
}

impl<T> DirectBatch<T> {
    /// Creates a batch of `jobs`: one transaction, if they have at most 1,000 coupons together.
    pub fn new(jobs: Vec<Job<T>>, points: FailPoints) -> Self {
        let ends = Direct { done: Vec::new(), aside: Vec::new() };
        let mut batch = Self::empty(ends, points);
        batch.add(jobs);
        batch
    }

    /// Takes the outcomes so far.
    pub fn take_done(&mut self) -> Vec<(T, Outcome)> {
        std::mem::take(&mut self.ends.done)
    }

    /// Takes the admissions that were set aside.
    pub fn take_aside(&mut self) -> Vec<Job<T>> {
        std::mem::take(&mut self.ends.aside)
    }
}

impl<T> Ends for Direct<T> {
    type Tag = T;

    const LANDING: LandingMode = LandingMode::Direct;
    const POINTS: Points = Points {
        before_begin: "landing.before_begin",
        after_commit: "landing.after_commit",
        locked: "landing.locked",
        before_reread: "landing.before_reread",
    };
    const RETRIES: &'static str = metric::LANDING_RETRIES.name;
    const LOCKED: &'static str = "set_aside";

    /// Every error with which the server is still there, also a full disk or a missing right: a client waits no longer than
    /// its deadline anyway.
    fn blames_a_claim(error: &StoreError) -> bool {
        !error.is_unavailable()
    }

    fn landed(&mut self, job: Job<T>) {
        self.done.push((job.tag, Outcome::Landed(job.landing.landed)));
    }

    fn decided(&mut self, job: Job<T>, decision: Decision, _is_proven: bool) -> Option<Again<T>> {
        if decision == Decision::Retry {
            return Some(Again { job, is_renumbered: false });
        }
        self.done.push((job.tag, Outcome::Decided(decision)));
        None
    }

    fn locked(&mut self, jobs: Vec<Job<T>>) -> Vec<Job<T>> {
        self.aside.extend(jobs);
        Vec::new()
    }

    fn renewed(&mut self, _template: TemplateId) {}

    fn gave_up(&mut self, job: Job<T>) {
        self.done.push((job.tag, Outcome::Undecided));
    }
}
