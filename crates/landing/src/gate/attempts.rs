//! The rebuilds of a process. There is at most one of a template at a time, and none for a while after a failure. A
//! rebuild that waits for the queue has a task of its own, so that it delays no other gate.

use std::{
    collections::HashMap,
    sync::{Mutex as Lock, PoisonError},
    time::{Duration, Instant},
};

use coupon::{Epoch, TemplateId};
use runtime::Backoff;

use crate::gate::{
    drains::Drains,
    gates::Gates,
    goal::{Aim, Goal},
    rebuild::{Begun, RebuildContext, RebuildError, Rebuilt, begin, finish},
};

/// First and longest wait before a failed rebuild is repeated. Each attempt raises the epoch, so direct admissions of
/// older epochs can no longer land.
const REBUILD_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// How long the closing of a queue may take before it is reported as a wait. No claim needs the gate of such a
/// template. The closing waits for every claim in its partition, so after a large sale it may take longer than the
/// drain of a lost gate should.
const CLOSING_SPARED: Duration = Duration::from_mins(1);

/// Gates that are left alone for a while, and until when.
type Rests = HashMap<TemplateId, (Backoff, Instant)>;

/// The rebuilds of a process.
#[derive(Default)]
pub(crate) struct Attempts {
    /// Gates whose rebuild failed, and when the next attempt is due.
    failed: Lock<Rests>,
    /// Gates that were rebuilt because they were wrong, and not found right since.
    wrong: Lock<Rests>,
    /// Gates whose rebuild waits for the queue, its aim, and since when it counts as a wait.
    draining: Lock<HashMap<TemplateId, (Aim, Instant)>>,
    /// State that these waits share.
    drains: Drains,
}

impl Attempts {
    /// Returns whether no rebuild may begin now: one failed or was not enough a moment ago, or waits for the queue.
    pub(super) fn rests(&self, template: TemplateId) -> bool {
        let is_in = |all: &Lock<Rests>| {
            let all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(&template).is_some_and(|(_, again)| Instant::now() < *again)
        };
        is_in(&self.failed)
            || is_in(&self.wrong)
            || self.draining.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&template)
    }

    /// Returns how long the oldest rebuild has been waiting for the queue; zero if none does.
    pub(crate) fn longest_drain(&self) -> Duration {
        let draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        draining.values().map(|(_, since)| since.elapsed()).max().unwrap_or_default()
    }

    /// Returns how many queues wait to be closed.
    pub(super) fn closings(&self) -> usize {
        let draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        draining.values().filter(|(aim, _)| *aim == Aim::Close).count()
    }

    fn note(&self, template: TemplateId, failed: bool) {
        Self::note_in(&self.failed, template, failed);
    }

    /// Lets a gate rest, each time longer, or no more.
    fn note_in(all: &Lock<Rests>, template: TemplateId, rests: bool) {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        if rests {
            let first = || (Backoff::new(REBUILD_AGAIN.0, REBUILD_AGAIN.1), Instant::now());
            let (backoff, again) = all.entry(template).or_insert_with(first);
            *again = Instant::now() + backoff.next_wait();
        } else {
            all.remove(&template);
        }
    }
}

/// A rebuild that waits for the queue. Dropping it ends the wait, however its task ended.
struct Draining {
    gates: Gates,
    template: TemplateId,
}

impl Draining {
    fn new(gates: Gates, goal: Goal, since: Instant) -> Self {
        let Goal { template, aim } = goal;
        let mut all = gates.attempts.draining.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(template, (aim, since));
        drop(all);
        Self { gates, template }
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        let mut all = self.gates.attempts.draining.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.template);
    }
}

impl Gates {
    /// Rebuilds a gate that is not open and learns its epoch, unless another process is rebuilding it, a rebuild failed
    /// a moment ago, or one waits for the queue. Does not wait for the queue itself.
    pub(crate) async fn rebuild(&self, template: TemplateId) -> Result<(), RebuildError> {
        self.attempt(Goal { template, aim: Aim::Open }).await
    }

    /// Rebuilds a gate that may be open, under the same conditions.
    pub(crate) async fn replace(&self, template: TemplateId) -> Result<(), RebuildError> {
        self.attempt(Goal { template, aim: Aim::Replace }).await
    }

    /// Rebuilds a gate that was found wrong, under the same conditions. If it is wrong again before a check finds it
    /// right, the next rebuild waits longer and longer: then something else makes it wrong, and each rebuild costs an
    /// epoch.
    pub(crate) async fn rebuild_wrong(&self, template: TemplateId) -> Result<(), RebuildError> {
        if self.attempts.rests(template) {
            return Ok(());
        }
        let rebuilt = self.replace(template).await;
        Attempts::note_in(&self.attempts.wrong, template, true);
        rebuilt
    }

    /// Records that a check has found the gate right.
    pub(crate) fn found_right(&self, template: TemplateId) {
        self.attempts.note(template, false);
        Attempts::note_in(&self.attempts.wrong, template, false);
    }

    /// Closes the queue of a template that is over, under the same conditions as [`Gates::rebuild`].
    pub(crate) async fn close_queue(&self, template: TemplateId) -> Result<(), RebuildError> {
        self.attempt(Goal { template, aim: Aim::Close }).await
    }

    async fn attempt(&self, goal: Goal) -> Result<(), RebuildError> {
        let template = goal.template;
        if self.attempts.rests(template) {
            return Ok(());
        }
        let started = Instant::now();
        match begin(&self.context(goal), started).await {
            Ok(Begun::Ended(rebuilt)) => {
                self.note_rebuilt(template, rebuilt);
                Ok(())
            }
            Ok(Begun::Drains(epoch)) => {
                self.drain_apart(goal, epoch, started);
                Ok(())
            }
            Err(error) => {
                self.attempts.note(template, true);
                Err(error)
            }
        }
    }

    /// Ends a rebuild in a task of its own. It renews its lease as long as it waits.
    fn drain_apart(&self, goal: Goal, epoch: Epoch, started: Instant) {
        let template = goal.template;
        let since = if goal.aim == Aim::Close { started + CLOSING_SPARED } else { started };
        let draining = Draining::new(self.clone(), goal, since);
        tokio::spawn(async move {
            let gates = &draining.gates;
            match finish(&gates.context(goal), epoch, started).await {
                Ok(rebuilt) => gates.note_rebuilt(template, rebuilt),
                Err(error) => {
                    gates.attempts.note(template, true);
                    let why = format!("template {template}: {}", runtime::report(&error));
                    runtime::seldom!("a gate is not rebuilt behind its queue", why);
                }
            }
            let gates = gates.clone();
            drop(draining);
            // Claims may be waiting for this gate.
            gates.looked();
        });
    }

    fn note_rebuilt(&self, template: TemplateId, rebuilt: Rebuilt) {
        match rebuilt {
            Rebuilt::Open(epoch) => {
                self.attempts.note(template, false);
                self.learn(template, epoch);
            }
            Rebuilt::Closed => self.attempts.note(template, false),
            // MySQL's epoch was raised in vain. Without a pause, a gate that refuses every epoch would be tried as often
            // as claims ask for a look.
            Rebuilt::Overtaken => self.attempts.note(template, true),
            Rebuilt::Elsewhere | Rebuilt::NoTemplate => {}
        }
    }

    fn context(&self, goal: Goal) -> RebuildContext<'_> {
        let gate = self.gate();
        let queue = &**self.queue();
        let drains = &self.attempts.drains;
        RebuildContext::new(self.pool(), gate, queue, drains, goal, &self.holder, &self.points)
    }
}
