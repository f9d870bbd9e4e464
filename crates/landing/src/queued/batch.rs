//! Batches of queued claims. Rejected rows and fences are written after all other claims have landed: only then is the
//! stock final, and writing decides once more under the stock row's lock.

use std::collections::{BTreeSet, VecDeque};

use chrono::{DateTime, Utc};
use coupon::{Decision, Epoch, LandingMode, RejectReason, TemplateId};
use mysql_store::{MySqlConnection, StoreError};
use runtime::FailPoints;

use crate::{
    batch::{Again, Batch, Ends, Job, Points, RunError},
    ids::Ids,
    queued::{
        end::{Ending, Next, QueuedEnd},
        endings::REJECTED_MAX,
        metric,
    },
};

/// A queued claim to land, with its place in the batch.
pub(super) type QueuedJob = Job<usize>;

pub(super) type QueuedBatch = Batch<Queued>;

/// The ends so far.
pub(super) struct Queued {
    done: Vec<(usize, QueuedEnd)>,
    /// Claims that end without landing, in order. They are written when no group is left.
    pub(super) endings: VecDeque<(QueuedJob, Ending)>,
    /// Number of endings, from the front, that are written one by one.
    pub(super) singly: usize,
    /// Most rejections in one transaction; fewer after a silence of MySQL.
    pub(super) rejected_max: usize,
    /// Gates that gave out a number twice.
    wrong_gates: BTreeSet<(TemplateId, Epoch)>,
    /// Templates with a newer version than the landings had.
    renewed: BTreeSet<TemplateId>,
}

impl QueuedBatch {
    pub(super) fn new(points: FailPoints) -> Self {
        let ends = Queued {
            done: Vec::new(),
            endings: VecDeque::new(),
            singly: 0,
            rejected_max: REJECTED_MAX,
            wrong_gates: BTreeSet::new(),
            renewed: BTreeSet::new(),
        };
        Self::empty(ends, points)
    }

    /// Adds a claim that cannot land.
    pub(super) fn end_later(&mut self, job: QueuedJob, ending: Ending) {
        self.ends.endings.push_back((job, ending));
    }

    /// Records an end that needs no row.
    pub(super) fn end_at_once(&mut self, index: usize, end: QueuedEnd) {
        self.ends.done.push((index, end));
    }

    /// Runs until every claim has its end. `now` is the time of a rejection or a fence.
    ///
    /// # Errors
    /// MySQL cannot be used. Call again with another connection; nothing is lost, because landing, rejecting and
    /// fencing are idempotent by claim id.
    pub(super) async fn run_to_ends(
        &mut self,
        connection: &mut MySqlConnection,
        ids: &Ids,
        now: &(dyn Fn() -> DateTime<Utc> + Send + Sync),
    ) -> Result<(), RunError> {
        loop {
            self.run(connection, ids).await?;
            if self.ends.endings.is_empty() {
                return Ok(());
            }
            self.end_some(connection, now()).await?;
        }
    }

    /// Takes the ends so far, by place in the batch.
    pub(super) fn take_done(&mut self) -> Vec<(usize, QueuedEnd)> {
        std::mem::take(&mut self.ends.done)
    }

    /// Takes the gates that gave out a number twice.
    pub(super) fn take_wrong(&mut self) -> BTreeSet<(TemplateId, Epoch)> {
        std::mem::take(&mut self.ends.wrong_gates)
    }

    /// Takes the templates whose newer version was read.
    pub(super) fn take_renewed(&mut self) -> BTreeSet<TemplateId> {
        std::mem::take(&mut self.ends.renewed)
    }

    /// Follows a decision that was made under the stock row's lock, when the claim's end was to be written.
    pub(super) fn follow_locked(&mut self, job: QueuedJob, next: Next) {
        if let Some(again) = self.ends.follow(job, next, true) {
            self.add(vec![again.job]);
        }
    }
}

impl Queued {
    /// Returns the claim if it is to be tried again.
    fn follow(&mut self, mut job: QueuedJob, next: Next, is_proven: bool) -> Option<Again<usize>> {
        if is_proven && next.blames_the_gate() {
            self.wrong_gates.insert((job.template(), job.landing.admission.epoch));
        }
        match next {
            Next::End(end) => self.done.push((job.tag, end)),
            Next::Later(ending) => self.endings.push_back((job, ending)),
            Next::Again => return Some(Again { job, is_renumbered: false }),
            // The number may be coming back just now, so keep it: the gate has it under this claim, and would not learn of
            // another.
            Next::AgainWith(_) if !is_proven => return Some(Again { job, is_renumbered: false }),
            Next::AgainWith(numbers) => {
                job.give_numbers(numbers);
                return Some(Again { job, is_renumbered: true });
            }
        }
        None
    }
}

impl Ends for Queued {
    type Tag = usize;

    const LANDING: LandingMode = LandingMode::Queued;
    const POINTS: Points = Points {
        before_begin: "queued.before_begin",
        after_commit: "queued.after_commit",
        locked: "queued.locked",
        before_reread: "queued.before_reread",
    };
    const RETRIES: &'static str = metric::RETRIES.name;
    const LOCKED: &'static str = "locked";

    fn blames_a_claim(error: &StoreError) -> bool {
        error.is_of_row()
    }

    fn landed(&mut self, job: QueuedJob) {
        self.done.push((job.tag, QueuedEnd::Landed));
    }

    fn decided(
        &mut self,
        job: QueuedJob,
        decision: Decision,
        is_proven: bool,
    ) -> Option<Again<usize>> {
        self.follow(job, decision.into(), is_proven)
    }

    fn locked(&mut self, jobs: Vec<QueuedJob>) -> Vec<QueuedJob> {
        jobs
    }

    fn renewed(&mut self, template: TemplateId) {
        self.renewed.insert(template);
    }

    fn gave_up(&mut self, job: QueuedJob) {
        self.endings.push_back((job, Ending::Reject(RejectReason::Failed)));
    }
}
