//! Lands one batch: tries it as a whole; if that fails, rereads the rows, decides, and runs the rest again.

use std::{
    collections::{HashMap, HashSet},
    io,
    time::Duration,
};

use chrono::TimeDelta;
use coupon::{Decision, FoundRows, LandedClaim, RequestId, TemplateId, UserId, decide};
use mysql_store::{
    MySqlConnection, StoreError,
    landing::{self, Attempt, Landing},
};
use runtime::FailPoints;
use thiserror::Error;
use tokio::time::{error::Elapsed, timeout};

use crate::{
    ids::{IdError, Ids},
    metric,
};

/// Attempts at an admission that is tried alone. Another attempt is needed only if the reread shows that the obstacle
/// is gone again, because other transactions commit and roll back meanwhile. After the last, the caller fences the
/// admission.
const ALONE_TRIES_MAX: u32 = 8;

/// Attempts at a whole group against deadlocks and lock waits. Then the group is halved, so that a locked claim row
/// delays only its own admissions. A locked stock row sets all admissions of its template aside at once.
pub(crate) const WHOLE_TRIES_MAX: u32 = 4;

/// Pause after a deadlock or a lock wait; the other transaction needs a flush or two.
pub(crate) const CONFLICT_PAUSE: Duration = Duration::from_millis(2);

/// Longest silence of MySQL within one attempt; far longer than a lander's lock wait timeout. Without this limit a
/// half-open connection would delay its batch for many minutes. Over another connection the same batch finds out
/// whether it landed.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The outcome of one admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It landed now.
    Landed(LandedClaim),
    /// Existing rows in the database decided it.
    Decided(Decision),
    /// It could not be landed, for an unknown reason. It must be fenced before it is given up.
    Undecided,
}

/// A run that ended before every admission had its outcome. The connection must not be used again.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("a batch could not be landed")]
    Store(#[from] StoreError),
    /// MySQL did not respond for ten seconds: `SILENCE_MAX`.
    #[error("MySQL is silent")]
    Silent(#[from] Elapsed),
    #[error("a batch was interrupted")]
    FailPoint(#[from] io::Error),
    /// Only for queued claims; other claims get their ids before they are in a batch.
    #[error("a batch has no ids for its coupons")]
    Ids(#[from] IdError),
}

/// Admissions to land, each with a tag of the caller, and the outcomes so far.
pub struct Batch<T> {
    done: Vec<(T, Outcome)>,
    /// Admissions of templates whose stock row is locked, to be landed apart from others.
    aside: Vec<(T, Landing)>,
    /// Groups still to be tried, each as one transaction.
    groups: Vec<Group<T>>,
    points: FailPoints,
}

struct Group<T> {
    jobs: Vec<(T, Landing)>,
    /// Attempts since the group last shrank.
    tries: u32,
    /// Attempts that ended in a conflict.
    conflicts: u32,
}

impl<T> Group<T> {
    fn new(jobs: Vec<(T, Landing)>) -> Self {
        Self { jobs, tries: 0, conflicts: 0 }
    }

    fn landings(&self) -> Vec<Landing> {
        self.jobs.iter().map(|(_, landing)| landing.clone()).collect()
    }
}

impl<T> Batch<T> {
    /// Creates a batch of `jobs`, which together hold at most 1,000 coupons.
    pub fn new(jobs: Vec<(T, Landing)>) -> Self {
        let (done, aside) = (Vec::new(), Vec::new());
        Self { done, aside, groups: vec![Group::new(jobs)], points: FailPoints::default() }
    }

    /// Adds the fail points `landing.before_begin`, those of [`landing::land_by_way_of`], `landing.after_commit`
    /// (before the outcome is recorded) and `landing.before_reread`.
    #[must_use]
    pub fn with_fail_points(self, points: FailPoints) -> Self {
        Self { points, ..self }
    }

    /// Moves the ends of holds, because the remaining admissions are tried later by this much than they were expected
    /// to land.
    pub(crate) fn lands_later(&mut self, by: TimeDelta) {
        let jobs = self.groups.iter_mut().flat_map(|group| &mut group.jobs);
        jobs.for_each(|(_, landing)| landing.landed.lands_later(by));
    }

    /// Runs until every admission has its outcome or is set aside. Outcomes are in the order in which they were
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
            if let Err(error) = self.try_group(&mut group, connection, ids).await {
                self.groups.push(group);
                return Err(error);
            }
            self.queue_again(group);
        }
        Ok(())
    }

    /// Takes the outcomes so far.
    pub fn take_done(&mut self) -> Vec<(T, Outcome)> {
        std::mem::take(&mut self.done)
    }

    /// Takes the admissions that were set aside.
    pub fn take_aside(&mut self) -> Vec<(T, Landing)> {
        std::mem::take(&mut self.aside)
    }

    /// Makes one attempt. Decided admissions leave the group; the rest are to be tried again.
    async fn try_group(
        &mut self,
        group: &mut Group<T>,
        connection: &mut MySqlConnection,
        ids: &Ids,
    ) -> Result<(), RunError> {
        group.tries += 1;
        self.points.reach("landing.before_begin").await?;
        let landings = group.landings();
        let points = &self.points;
        let landing = landing::land_by_way_of(connection, &landings, |point| points.reach(point));
        match timeout(SILENCE_MAX, landing).await? {
            Ok(Attempt::Landed) => {
                self.points.reach("landing.after_commit").await?;
                let landed = group.jobs.drain(..);
                self.done.extend(landed.map(|(tag, job)| (tag, Outcome::Landed(job.landed))));
            }
            Ok(Attempt::CouponIdTaken) => {
                count_retry("coupon_id");
                give_new_coupon_ids(&mut group.jobs, ids);
                // As for any duplicate, first check whether the admission itself has landed.
                self.decide(group, connection, false).await?;
            }
            Ok(attempt @ (Attempt::GuardRefused | Attempt::ClaimTaken | Attempt::NumberTaken)) => {
                count_retry("refused");
                let is_proven = attempt == Attempt::NumberTaken && group.jobs.len() == 1;
                self.decide(group, connection, is_proven).await?;
            }
            Err(error) if error.is_conflict() => {
                count_retry("conflict");
                group.conflicts += 1;
                if error.is_lock_wait() {
                    self.set_aside(group, connection).await?;
                } else {
                    tokio::time::sleep(CONFLICT_PAUSE).await;
                }
            }
            Err(error) if error.is_unavailable() => return Err(error.into()),
            Err(error) => {
                // MySQL refuses the statement itself. Tried alone, only the admission at fault fails.
                tracing::error!(error = runtime::report(&error), "a landing was refused by MySQL");
                count_retry("error");
            }
        }
        Ok(())
    }

    /// Takes out of the group the admissions of templates whose stock row is still locked.
    async fn set_aside(
        &mut self,
        group: &mut Group<T>,
        connection: &mut MySqlConnection,
    ) -> Result<(), RunError> {
        let templates = group.jobs.iter().map(|(_, landing)| landing.landed.template_id).collect();
        let locked = timeout(SILENCE_MAX, landing::locked(connection, &templates)).await??;
        if locked.is_empty() {
            return Ok(());
        }
        count_retry("set_aside");
        let is_locked = |(_, landing): &(T, Landing)| locked.contains(&landing.landed.template_id);
        let (aside, rest) = group.jobs.drain(..).partition(is_locked);
        group.jobs = rest;
        group.tries = 0;
        group.conflicts = 0;
        self.aside.extend(aside);
        Ok(())
    }

    /// Rereads the rows and decides. Admissions without an obstacle stay in the group.
    ///
    /// A return may just be giving back a number that the reread finds taken: the gate already contains it, and MySQL
    /// does not show it yet. A landing that meets the duplicate waits for that return; a reread does not wait. So the
    /// number is proven taken only if this admission, tried alone, met the duplicate.
    async fn decide(
        &mut self,
        group: &mut Group<T>,
        connection: &mut MySqlConnection,
        is_proven: bool,
    ) -> Result<(), RunError> {
        self.points.reach("landing.before_reread").await?;
        let landings = group.landings();
        let found = timeout(SILENCE_MAX, landing::reread(connection, &landings)).await??;
        let decisions = decide_all(&landings, found, is_proven);
        let mut rest = Vec::with_capacity(group.jobs.len());
        for ((tag, job), decision) in group.jobs.drain(..).zip(decisions) {
            match decision {
                Decision::Retry => rest.push((tag, job)),
                decided => self.done.push((tag, Outcome::Decided(decided))),
            }
        }
        let fewer = rest.len() < landings.len();
        group.jobs = rest;
        // The template's validity may have changed; the next attempts use the new one.
        let again = group.jobs.iter_mut().map(|(_, landing)| landing);
        let renewed = timeout(SILENCE_MAX, landing::renew(connection, again)).await??;
        if fewer || renewed {
            group.tries = 0;
            group.conflicts = 0;
        }
        Ok(())
    }

    /// Queues the rest of a group: unchanged if it shrank or met only conflicts, otherwise split, so that admissions
    /// that obstruct each other (the same key or number twice) get decided.
    fn queue_again(&mut self, mut group: Group<T>) {
        match group.jobs.len() {
            0 => {}
            1 if group.tries >= ALONE_TRIES_MAX => {
                let gave_up = group.jobs.drain(..);
                self.done.extend(gave_up.map(|(tag, _)| (tag, Outcome::Undecided)));
            }
            1 => self.groups.push(group),
            _ if group.tries == 0 => self.groups.push(group),
            _ if group.tries == group.conflicts && group.tries < WHOLE_TRIES_MAX => {
                self.groups.push(group);
            }
            count => {
                let second = group.jobs.split_off(count / 2);
                self.groups.push(Group::new(second));
                self.groups.push(Group::new(group.jobs));
            }
        }
    }
}

/// Decides in batch order, as if each admission were landed alone. Each admission that will be run again reduces the
/// stock left for those behind it, so if a batch asks for too much, only its tail is refused. An admission whose number
/// seems taken is run again too, unless that `is_proven`. An admission that shares a key or a number with one ahead of
/// it is decided after that one has landed. Whether these take stock is not known yet, so where too little is left, an
/// admission behind them is run again.
fn decide_all(landings: &[Landing], found: Vec<FoundRows>, is_proven: bool) -> Vec<Decision> {
    let mut ahead = Ahead::default();
    landings
        .iter()
        .zip(found)
        .map(|(landing, mut found)| {
            if let Some(stock) = &mut found.stock {
                let template = landing.admission.claim.template_id;
                stock.stock -= ahead.taken.get(&template).copied().unwrap_or(0);
            }
            let decision = decide(&landing.admission, &found);
            if ahead.must_land_before(landing, decision) {
                ahead.add_unknown(landing);
                return Decision::Retry;
            }
            if decision == Decision::NumberTaken && !is_proven {
                ahead.add_names(landing);
                ahead.add_unknown(landing);
                return Decision::Retry;
            }
            if decision == Decision::Retry {
                ahead.add(landing);
            }
            decision
        })
        .collect()
}

/// The stock, keys and numbers of the batch's earlier admissions that will be tried again.
#[derive(Default)]
struct Ahead<'a> {
    taken: HashMap<TemplateId, i64>,
    keys: HashSet<(TemplateId, UserId, &'a RequestId)>,
    numbers: HashSet<(TemplateId, UserId, i64)>,
    /// Templates of which one of those admissions may or may not take stock.
    unknown: HashSet<TemplateId>,
}

impl<'a> Ahead<'a> {
    fn add(&mut self, landing: &'a Landing) {
        let claim = &landing.admission.claim;
        *self.taken.entry(claim.template_id).or_default() += i64::from(claim.quantity);
        self.add_names(landing);
    }

    fn add_unknown(&mut self, landing: &Landing) {
        self.unknown.insert(landing.admission.claim.template_id);
    }

    fn add_names(&mut self, landing: &'a Landing) {
        let claim = &landing.admission.claim;
        self.keys.insert((claim.template_id, claim.user_id, &claim.request_id));
        self.numbers.extend(numbers(landing));
    }

    fn must_land_before(&self, landing: &Landing, decision: Decision) -> bool {
        let claim = &landing.admission.claim;
        let key = (claim.template_id, claim.user_id, &claim.request_id);
        let undecided = matches!(decision, Decision::Short { .. } | Decision::Retry);
        self.keys.contains(&key)
            || matches!(decision, Decision::Short { .. }) && self.unknown.contains(&key.0)
            || undecided && numbers(landing).any(|number| self.numbers.contains(&number))
    }
}

fn numbers(landing: &Landing) -> impl Iterator<Item = (TemplateId, UserId, i64)> {
    let LandedClaim { template_id, user_id, coupons, .. } = &landing.landed;
    coupons.iter().map(|coupon| (*template_id, *user_id, coupon.claim_no))
}

fn give_new_coupon_ids<T>(jobs: &mut [(T, Landing)], ids: &Ids) {
    for (_, job) in jobs {
        let unlimited = job.admission.numbers.is_empty();
        for coupon in &mut job.landed.coupons {
            // Without a lease the ids stay as they are, and the next attempt finds them taken again.
            let Ok(id) = ids.coupon() else { return };
            coupon.id = id;
            if unlimited {
                coupon.claim_no = id.0;
            }
        }
    }
}

fn count_retry(reason: &'static str) {
    metrics::counter!(metric::LANDING_RETRIES.name, "reason" => reason).increment(1);
}
