//! Lands one batch: tries it as a whole; if that fails, rereads the rows, decides, and runs the rest again.
//!
//! Direct and queued claims have one engine. [`Ends`] is what differs: `direct` gives each admission an outcome for the
//! client that waits, `crate::queued` gives each claim an end. `ahead` decides the admissions of one transaction
//! together.

mod ahead;
pub mod direct;
pub(crate) mod job;

use std::{io, time::Duration};

use coupon::{Decision, LandingMode, TemplateId};
use mysql_store::{
    MySqlConnection, StoreError,
    landing::{self, Attempt},
};
use runtime::FailPoints;
use thiserror::Error;
use tokio::time::{error::Elapsed, sleep, timeout};
use tracing::error;

use self::{
    ahead::decide_all,
    job::{Group, split},
};
pub use self::{
    direct::{DirectBatch, Outcome},
    job::Job,
};
use crate::ids::{IdError, Ids};

/// Attempts at an admission that is tried alone. Each further one follows a reread that found no obstacle any more, because
/// another transaction ended meanwhile.
const ALONE_TRIES_MAX: u32 = 8;

/// Pause before a queued claim is tried alone once more after a refusal, so that the obstacle has time to show.
const ALONE_PAUSE: Duration = Duration::from_millis(20);

/// Attempts at a whole group against deadlocks and lock waits. Then the group is halved, so that a locked claim row
/// delays only its own half. A locked stock row needs no halving: all admissions of its template leave the group.
const WHOLE_TRIES_MAX: u32 = 4;

/// Pause after a deadlock or a lock wait; the other transaction needs a flush or two.
pub(crate) const CONFLICT_PAUSE: Duration = Duration::from_millis(2);

/// Longest silence of MySQL within one attempt; far longer than a lander's lock wait timeout. Without this limit a
/// half-open connection would delay its batch for many minutes. Over another connection the same batch finds out
/// whether it landed.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A run that ended before every admission had its end. The connection must not be used again.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("a batch could not be landed")]
    Store(#[from] StoreError),
    /// MySQL did not respond for ten seconds: `SILENCE_MAX`.
    #[error("MySQL is silent")]
    Silent(#[from] Elapsed),
    #[error("a batch was interrupted")]
    FailPoint(#[from] io::Error),
    #[error("a batch has no ids for its coupons")]
    Ids(#[from] IdError),
}

/// The claims of a batch that are direct, or those that are queued: their ends so far, and what differs on the way.
pub trait Ends {
    /// What the caller attaches to an admission to recognise its end.
    type Tag;

    const LANDING: LandingMode;
    const POINTS: Points;
    /// The counter of repeated transactions.
    const RETRIES: &'static str;
    /// Value of that counter's label `reason` when a stock row is locked.
    const LOCKED: &'static str;

    /// Returns whether to blame one of the claims. The group is then halved until that claim is alone and fails. After any
    /// other error the whole batch waits for another connection.
    fn blames_a_claim(error: &StoreError) -> bool;

    /// An admission landed now.
    fn landed(&mut self, job: Job<Self::Tag>);

    /// Follows a decision. Returns the admission if it is to be tried again. `is_proven`: this admission alone met the
    /// duplicate, so the number is taken and the gate was wrong. Otherwise a return may be giving the number back just now.
    fn decided(
        &mut self,
        job: Job<Self::Tag>,
        decision: Decision,
        is_proven: bool,
    ) -> Option<Again<Self::Tag>>;

    /// The stock rows of these admissions' templates are locked. Returns those that are to be tried after all others.
    fn locked(&mut self, jobs: Vec<Job<Self::Tag>>) -> Vec<Job<Self::Tag>>;

    /// An admission of this template has got a newer validity.
    fn renewed(&mut self, template: TemplateId);

    /// An admission was tried alone as often as allowed, and nothing is known to be in its way.
    fn gave_up(&mut self, job: Job<Self::Tag>);

    fn count_retry(reason: &'static str) {
        metrics::counter!(Self::RETRIES, "reason" => reason).increment(1);
    }
}

/// Names of fail points.
#[derive(Debug)]
pub struct Points {
    pub(crate) before_begin: &'static str,
    /// Before an end is recorded.
    pub(crate) after_commit: &'static str,
    /// After a wait for a lock.
    pub(crate) locked: &'static str,
    pub(crate) before_reread: &'static str,
}

/// An admission that is to be tried again.
pub struct Again<T> {
    pub(crate) job: Job<T>,
    /// Whether it has other numbers now.
    pub(crate) is_renumbered: bool,
}

/// Admissions to land, and in `ends` those so far.
pub struct Batch<E: Ends> {
    /// A stack: the last group is tried next, as one transaction.
    groups: Vec<Group<E::Tag>>,
    pub(crate) ends: E,
    pub(crate) points: FailPoints,
}

impl<E: Ends> Batch<E> {
    pub(crate) fn empty(ends: E, points: FailPoints) -> Self {
        Self { groups: Vec::new(), ends, points }
    }

    /// Puts admissions, in order, before those still waiting, split into as few transactions as their coupons allow.
    pub(crate) fn add(&mut self, jobs: Vec<Job<E::Tag>>) {
        self.groups.extend(split(jobs).into_iter().rev());
    }

    /// Runs until every admission has its end, or was taken out ([`Ends::locked`]). Ends are in the order in which they were
    /// decided.
    ///
    /// # Errors
    /// The connection failed. Call again with another one; nothing is lost, because landing is idempotent by claim
    /// id.
    pub async fn run(
        &mut self,
        connection: &mut MySqlConnection,
        ids: &Ids,
    ) -> Result<(), RunError> {
        while let Some(mut group) = self.groups.pop() {
            match self.try_group(&mut group, connection, ids).await {
                Ok(()) => self.queue_again(group),
                Err(error) => {
                    if matches!(error, RunError::Silent(_)) {
                        self.halve(group);
                    } else {
                        self.groups.push(group);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Makes one attempt. Decided admissions leave the group; the rest are to be tried again.
    async fn try_group(
        &mut self,
        group: &mut Group<E::Tag>,
        connection: &mut MySqlConnection,
        ids: &Ids,
    ) -> Result<(), RunError> {
        if is_patient::<E>() && group.jobs.len() == 1 && group.was_refused() {
            sleep(ALONE_PAUSE).await;
        }
        self.points.reach(E::POINTS.before_begin).await?;
        let landings = group.land_now();
        let points = &self.points;
        let reach = |point| points.reach(point);
        let landing = landing::land_by_way_of(connection, E::LANDING, &landings, reach);
        let attempt = timeout(SILENCE_MAX, landing).await?;
        group.tries += 1;
        match attempt {
            Ok(Attempt::Landed) => {
                self.points.reach(E::POINTS.after_commit).await?;
                group.jobs.drain(..).for_each(|job| self.ends.landed(job));
            }
            Ok(Attempt::CouponIdTaken) => {
                E::count_retry("coupon_id");
                if let Err(error) = group.give_new_coupon_ids(ids)
                    && is_patient::<E>()
                {
                    // The taken id says nothing about the admissions, so the attempt does not count.
                    group.restart_count();
                    return Err(error.into());
                }
                // As for any duplicate, first check whether the admission itself has landed.
                self.decide(group, connection, false).await?;
            }
            Ok(attempt @ (Attempt::GuardRefused | Attempt::ClaimTaken | Attempt::NumberTaken)) => {
                E::count_retry("refused");
                let is_proven = attempt == Attempt::NumberTaken && group.jobs.len() == 1;
                self.decide(group, connection, is_proven).await?;
            }
            Err(error) if error.is_conflict() => {
                E::count_retry("conflict");
                group.conflicts += 1;
                if error.is_lock_wait() {
                    self.take_locked(group, connection).await?;
                } else {
                    sleep(CONFLICT_PAUSE).await;
                }
            }
            Err(error) if E::blames_a_claim(&error) => {
                error!(error = runtime::report(&error), "a landing was refused by MySQL");
                E::count_retry("error");
            }
            // MySQL may answer and yet take no landing, as with a full disk: then queued claims wait.
            Err(error) => {
                if !error.is_unavailable() {
                    E::count_retry("error");
                }
                // An outage is no attempt.
                group.tries -= 1;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Takes out of the group the admissions of templates whose stock row is still locked.
    async fn take_locked(
        &mut self,
        group: &mut Group<E::Tag>,
        connection: &mut MySqlConnection,
    ) -> Result<(), RunError> {
        self.points.reach(E::POINTS.locked).await?;
        let templates = group.jobs.iter().map(Job::template).collect();
        let locked = timeout(SILENCE_MAX, landing::locked(connection, &templates)).await??;
        if locked.is_empty() {
            return Ok(());
        }
        E::count_retry(E::LOCKED);
        let is_locked = |job: &Job<E::Tag>| locked.contains(&job.template());
        let (blocked, rest) = group.jobs.drain(..).partition(is_locked);
        group.jobs = rest;
        group.restart_count();
        let last = self.ends.locked(blocked);
        if !last.is_empty() {
            self.groups.insert(0, Group::new(last));
        }
        Ok(())
    }

    /// Rereads the rows and decides. Admissions without an obstacle stay in the group.
    async fn decide(
        &mut self,
        group: &mut Group<E::Tag>,
        connection: &mut MySqlConnection,
        is_proven: bool,
    ) -> Result<(), RunError> {
        self.points.reach(E::POINTS.before_reread).await?;
        let landings = group.landings();
        let reread = landing::reread(connection, E::LANDING, &landings);
        let Some(found) = readable::<E, _>(timeout(SILENCE_MAX, reread).await?)? else {
            return Ok(());
        };
        let decisions = decide_all(E::LANDING, &landings, found, is_proven);
        let mut is_changed = false;
        for (job, decision) in std::mem::take(&mut group.jobs).into_iter().zip(decisions) {
            if let Some(again) = self.ends.decided(job, decision, is_proven) {
                is_changed |= again.is_renumbered;
                group.jobs.push(again.job);
            }
        }
        is_changed |= group.jobs.len() < landings.len();
        // The template's validity may have changed; the next attempts use the new one.
        let remaining = group.jobs.iter_mut().map(|job| &mut job.landing).collect();
        let renewing = landing::renew(connection, remaining);
        if readable::<E, _>(timeout(SILENCE_MAX, renewing).await?)? == Some(true) {
            is_changed = true;
            group.jobs.iter().for_each(|job| self.ends.renewed(job.template()));
        }
        if is_changed {
            group.restart_count();
        }
        Ok(())
    }

    /// Queues what is left of a group: whole, if its count was just restarted or it met only conflicts; else halved, so that
    /// admissions that obstruct each other (the same key or number twice) get decided.
    fn queue_again(&mut self, mut group: Group<E::Tag>) {
        // An accepted claim is tried for as long as conflicts last.
        let alone_tries = group.tries - if is_patient::<E>() { group.conflicts } else { 0 };
        match group.jobs.len() {
            0 => {}
            1 if alone_tries >= ALONE_TRIES_MAX => {
                group.jobs.drain(..).for_each(|job| self.ends.gave_up(job));
            }
            1 => self.groups.push(group),
            _ if group.tries == 0 => self.groups.push(group),
            _ if group.tries == group.conflicts && group.tries < WHOLE_TRIES_MAX => {
                self.groups.push(group);
            }
            _ => self.halve(group),
        }
    }

    /// Queues a group as two: because its admissions obstruct each other, or because MySQL was silent, perhaps over too large
    /// a transaction, which would take as long every time.
    fn halve(&mut self, mut group: Group<E::Tag>) {
        if group.jobs.len() < 2 {
            self.groups.push(group);
            return;
        }
        let second = group.jobs.split_off(group.jobs.len() / 2);
        self.groups.push(Group::new(second));
        self.groups.push(Group::new(group.jobs));
    }
}

/// Returns whether admissions are tried for as long as it takes, since their clients were answered already. Direct claims
/// are not: their clients wait, and so do the other claims of this process.
fn is_patient<E: Ends>() -> bool {
    E::LANDING == LandingMode::Queued
}

/// Returns what was read; `None` if a row cannot be read. The attempt then counts as refused, so the group is halved until
/// only that claim is left and fails.
fn readable<E: Ends, T>(read: Result<T, StoreError>) -> Result<Option<T>, RunError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_unreadable() => {
            error!(error = runtime::report(&error), "what MySQL holds of a claim cannot be read");
            E::count_retry("error");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
