//! Lands one batch of queued claims: tries it as a whole; if that fails, rereads the rows, decides, and runs the rest
//! again. Claims that cannot land get their rejected rows or fences once all other claims have landed, because only
//! then the stock is the one that the decision under the lock will see.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use chrono::{DateTime, Utc};
use coupon::{Epoch, RejectReason, TemplateId};
use mysql_store::{
    MySqlConnection, StoreError, landing,
    queued_landing::{self, QueuedAttempt},
};
use runtime::FailPoints;
use tokio::time::timeout;
use tracing::error;

use crate::{
    ids::Ids,
    lander::batch::{CONFLICT_PAUSE, RunError, SILENCE_MAX, WHOLE_TRIES_MAX},
    queued::{
        ahead::decide_all,
        end::{Ending, Next, QueuedEnd},
        endings::REJECTED_MAX,
        group::{self, Group, QueuedJob},
        metric,
    },
};

/// Attempts at a claim that is tried alone, not counting those that met a lock. Another attempt is needed only if the
/// reread shows that the obstacle is gone again. After the last, the claim counts as one that cannot be landed.
const ALONE_TRIES_MAX: u32 = 8;

/// Pause before a claim is tried alone once more, so that the obstacle has time to show.
const ALONE_PAUSE: Duration = Duration::from_millis(20);

/// The claims of one batch, and the ends so far.
pub(super) struct QueuedBatch {
    done: Vec<(usize, QueuedEnd)>,
    /// Groups still to be tried, each as one transaction, from the end.
    groups: Vec<Group>,
    /// Claims that end without landing, in order. They are written when no group is left.
    pub(super) endings: VecDeque<(QueuedJob, Ending)>,
    /// Number of endings, from the front, that are written one by one.
    pub(super) singly: usize,
    /// Most rejections in one transaction; fewer after a silence of MySQL.
    pub(super) rejected_max: usize,
    /// Gates that gave out a number twice.
    wrong: BTreeSet<(TemplateId, Epoch)>,
    /// Templates with a newer version than the landings had.
    renewed: BTreeSet<TemplateId>,
    pub(super) points: FailPoints,
}

impl QueuedBatch {
    pub(super) fn new(points: FailPoints) -> Self {
        Self {
            done: Vec::new(),
            groups: Vec::new(),
            endings: VecDeque::new(),
            singly: 0,
            rejected_max: REJECTED_MAX,
            wrong: BTreeSet::new(),
            renewed: BTreeSet::new(),
            points,
        }
    }

    /// Adds claims to land, in order, before those of earlier calls: as many transactions as their coupons need.
    pub(super) fn add(&mut self, jobs: Vec<QueuedJob>) {
        self.groups.extend(group::split(jobs).into_iter().rev());
    }

    /// Adds a claim that cannot land.
    pub(super) fn end_later(&mut self, job: QueuedJob, ending: Ending) {
        self.endings.push_back((job, ending));
    }

    /// Records an end that needs no row.
    pub(super) fn end_at_once(&mut self, index: usize, end: QueuedEnd) {
        self.done.push((index, end));
    }

    /// Runs until every claim has its end. `now` is the time of a rejection or a fence.
    ///
    /// # Errors
    /// MySQL cannot be used. Call again with another connection; nothing is lost, because landing, rejecting and
    /// fencing are idempotent by claim id.
    pub(super) async fn run(
        &mut self,
        connection: &mut MySqlConnection,
        ids: &Ids,
        now: &(dyn Fn() -> DateTime<Utc> + Send + Sync),
    ) -> Result<(), RunError> {
        loop {
            if let Some(mut group) = self.groups.pop() {
                if let Err(error) = self.try_group(&mut group, connection, ids).await {
                    if matches!(error, RunError::Silent(_)) {
                        self.halve(group);
                    } else {
                        self.groups.push(group);
                    }
                    return Err(error);
                }
                self.queue_again(group);
            } else if !self.endings.is_empty() {
                self.end_some(connection, now()).await?;
            } else {
                return Ok(());
            }
        }
    }

    /// Takes the ends so far, by place in the batch.
    pub(super) fn take_done(&mut self) -> Vec<(usize, QueuedEnd)> {
        std::mem::take(&mut self.done)
    }

    /// Takes the gates that gave out a number twice.
    pub(super) fn take_wrong(&mut self) -> BTreeSet<(TemplateId, Epoch)> {
        std::mem::take(&mut self.wrong)
    }

    /// Takes the templates whose newer version was read.
    pub(super) fn take_renewed(&mut self) -> BTreeSet<TemplateId> {
        std::mem::take(&mut self.renewed)
    }

    /// Makes one attempt. Decided claims leave the group; the rest are to be tried again.
    async fn try_group(
        &mut self,
        group: &mut Group,
        connection: &mut MySqlConnection,
        ids: &Ids,
    ) -> Result<(), RunError> {
        if group.jobs.len() == 1 && group.tries > 0 {
            tokio::time::sleep(ALONE_PAUSE).await;
        }
        self.points.reach("queued.before_begin").await?;
        let landings = group.land_now();
        let points = &self.points;
        let landing =
            queued_landing::land_by_way_of(connection, &landings, |point| points.reach(point));
        let attempt = timeout(SILENCE_MAX, landing).await?;
        group.tries += 1;
        match attempt {
            Ok(QueuedAttempt::Landed) => {
                self.points.reach("queued.after_commit").await?;
                let landed = group.jobs.drain(..);
                self.done.extend(landed.map(|job| (job.index, QueuedEnd::Landed)));
            }
            Ok(QueuedAttempt::CouponIdTaken) => {
                count_retry("coupon_id");
                if let Err(error) = group.give_new_coupon_ids(ids) {
                    // The taken id says nothing about the claims, so the attempt does not count.
                    group.changed();
                    return Err(error.into());
                }
                // As for any duplicate, first check whether the claim itself has landed.
                self.decide(group, connection, false).await?;
            }
            Ok(
                attempt @ (QueuedAttempt::GuardRefused
                | QueuedAttempt::ClaimTaken
                | QueuedAttempt::NumberTaken),
            ) => {
                count_retry("refused");
                let is_proven = attempt == QueuedAttempt::NumberTaken && group.jobs.len() == 1;
                self.decide(group, connection, is_proven).await?;
            }
            Err(error) if error.is_conflict() => {
                count_retry("conflict");
                group.conflicts += 1;
                if error.is_lock_wait() {
                    self.put_locked_last(group, connection).await?;
                } else {
                    tokio::time::sleep(CONFLICT_PAUSE).await;
                }
            }
            Err(error) if error.is_of_row() => {
                // Tried alone, only the claim at fault fails.
                error!(error = runtime::report(&error), "a queued landing was refused by MySQL");
                count_retry("error");
            }
            // Any other error says nothing about the claims: they wait. MySQL may answer and yet take no landing, for
            // example with a full disk.
            Err(error) => {
                if !error.is_unavailable() {
                    count_retry("error");
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Moves the claims of templates whose stock row is still locked behind all others.
    async fn put_locked_last(
        &mut self,
        group: &mut Group,
        connection: &mut MySqlConnection,
    ) -> Result<(), RunError> {
        self.points.reach("queued.locked").await?;
        let templates = group.jobs.iter().map(QueuedJob::template).collect();
        let locked = timeout(SILENCE_MAX, landing::locked(connection, &templates)).await??;
        if locked.is_empty() {
            return Ok(());
        }
        count_retry("locked");
        let is_locked = |job: &QueuedJob| locked.contains(&job.template());
        let (last, rest) = group.jobs.drain(..).partition(is_locked);
        group.jobs = rest;
        group.changed();
        self.groups.insert(0, Group::new(last));
        Ok(())
    }

    /// Rereads the rows and decides. Claims without an obstacle stay in the group. A number that is found taken shows
    /// that the gate is wrong only if it `is_proven`: a claim that was tried alone met the duplicate. Otherwise a
    /// return may just be giving the number back.
    async fn decide(
        &mut self,
        group: &mut Group,
        connection: &mut MySqlConnection,
        is_proven: bool,
    ) -> Result<(), RunError> {
        self.points.reach("queued.before_reread").await?;
        let landings = group.landings();
        let found = timeout(SILENCE_MAX, queued_landing::reread(connection, &landings)).await?;
        let found = match found {
            Ok(found) => found,
            // Tried alone, only the claim at fault fails.
            Err(error) if error.is_unreadable() => {
                unreadable(&error);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let next = decide_all(&group.jobs, found);
        let mut rest = Vec::with_capacity(group.jobs.len());
        let mut renumbered = false;
        for (mut job, next) in group.jobs.drain(..).zip(next) {
            if is_proven {
                self.note_wrong(&job, &next);
            }
            match next {
                Next::End(end) => self.done.push((job.index, end)),
                Next::Later(ending) => self.endings.push_back((job, ending)),
                Next::Again => rest.push(job),
                // Keep a number that may just be coming back. The gate holds it for this claim, and would not learn
                // that the claim got another one.
                Next::AgainWith(_) if !is_proven => rest.push(job),
                Next::AgainWith(numbers) => {
                    job.give_numbers(numbers);
                    renumbered = true;
                    rest.push(job);
                }
            }
        }
        group.jobs = rest;
        // The template's validity may have changed; the next attempts use the new one.
        let again = group.jobs.iter_mut().map(|job| &mut job.landing);
        let renewed = match timeout(SILENCE_MAX, queued_landing::renew(connection, again)).await? {
            Ok(renewed) => renewed,
            Err(error) if error.is_unreadable() => {
                unreadable(&error);
                false
            }
            Err(error) => return Err(error.into()),
        };
        if renewed {
            self.renewed.extend(group.jobs.iter().map(QueuedJob::template));
        }
        if renumbered || renewed || group.jobs.len() < landings.len() {
            group.changed();
        }
        Ok(())
    }

    /// Queues the rest of a group: unchanged if it shrank or met only conflicts, otherwise split, so that claims that
    /// obstruct each other (the same key or number twice) get decided. Conflicts alone never end a claim.
    fn queue_again(&mut self, mut group: Group) {
        match group.jobs.len() {
            0 => {}
            1 if group.tries - group.conflicts >= ALONE_TRIES_MAX => {
                for mut job in group.jobs.drain(..) {
                    if job.given_up {
                        // A rejection would find no reason either.
                        self.done.push((job.index, QueuedEnd::Unlandable));
                    } else {
                        job.given_up = true;
                        self.endings.push_back((job, Ending::Reject(RejectReason::Failed)));
                    }
                }
            }
            1 => self.groups.push(group),
            _ if group.tries == 0 => self.groups.push(group),
            _ if group.tries == group.conflicts && group.tries < WHOLE_TRIES_MAX => {
                self.groups.push(group);
            }
            _ => self.halve(group),
        }
    }

    /// Queues a group as two. MySQL may have been silent because the transaction is too large, and the same transaction
    /// would take as long every time. This does not count as an attempt: a claim alone is tried for ever.
    fn halve(&mut self, mut group: Group) {
        if group.jobs.len() < 2 {
            self.groups.push(group);
            return;
        }
        let second = group.jobs.split_off(group.jobs.len() / 2);
        self.groups.push(Group::new(second));
        self.groups.push(Group::new(group.jobs));
    }

    /// Carries out a decision that was made under the lock.
    pub(super) fn follow(&mut self, mut job: QueuedJob, next: Next) {
        self.note_wrong(&job, &next);
        match next {
            Next::End(end) => self.done.push((job.index, end)),
            Next::Later(ending) => self.endings.push_back((job, ending)),
            Next::Again => self.groups.push(Group::new(vec![job])),
            Next::AgainWith(numbers) => {
                job.give_numbers(numbers);
                self.groups.push(Group::new(vec![job]));
            }
        }
    }

    fn note_wrong(&mut self, job: &QueuedJob, next: &Next) {
        if next.blames_the_gate() {
            self.wrong.insert((job.template(), job.landing.queued.admission.epoch));
        }
    }
}

fn unreadable(error: &StoreError) {
    error!(error = runtime::report(error), "what MySQL holds of a queued claim cannot be read");
    count_retry("error");
}

pub(super) fn count_retry(reason: &'static str) {
    metrics::counter!(metric::RETRIES.name, "reason" => reason).increment(1);
}
