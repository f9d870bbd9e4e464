//! The rebuild of the gate under a new epoch. Rebuilds may begin at any time, with or without a reason. Two may run at
//! once, because the lease that normally prevents it only saves work.
//!
//! It first begins a new epoch for direct landings. Queued claims of the old epoch still land; the gate is loaded only
//! after the queue is drained. After the template's end the same steps close the queue.

use coupon::TemplateState;

use super::{
    NOW, Next, Protocol, State, Who, dies, is_next,
    state::{RebuildStep, Rebuilder},
    step,
};
use crate::Bug;

/// How far the first epoch of a server is above the last one: more than a lost history can have raised it.
const LEAP: u8 = 50;

impl Protocol {
    pub(super) fn rebuild(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Rebuilder(which);
        let rebuilder = state.rebuilders[which];
        let idle = Rebuilder::default();
        if rebuilder == idle {
            self.begin_rebuild(state, which, next);
            return;
        }
        let mut after = *state;
        if let Some(what) = self.rebuild_next(&mut after, which) {
            next.push((step(who, what), after));
        }
        dies(state, who, next, |dead| {
            dead.rebuilders[which] = idle;
            dead.operator.send_lost |= rebuilder.next == RebuildStep::CatchUp;
        });
    }

    fn begin_rebuild(&self, state: &State, which: usize, next: &mut Next) {
        let first = is_next(&state.rebuilders, which, &Rebuilder::default());
        let closed = state.truth.ever_queued && self.is_closed(state);
        // Raising the epoch waits for the stock row.
        if state.left.rebuilds == 0 || !first || closed || state.truth.hidden.is_some() {
            return;
        }
        let mut after = *state;
        after.left.rebuilds -= 1;
        let what = if self.has(Bug::FirstMovementReadEarly) {
            let next = RebuildStep::Raise;
            let first = state.truth.movement;
            after.rebuilders[which] = Rebuilder { next, first, ..Rebuilder::default() };
            "reads the last movement"
        } else {
            self.raise(&mut after, which, state.truth.history);
            "raises the epoch"
        };
        if let Some(old) = state.old_primary() {
            let mut at_old = *state;
            at_old.left.rebuilds -= 1;
            self.raise(&mut at_old, which, old.history);
            next.push((step(Who::Rebuilder(which), "raises the old primary's epoch"), at_old));
        }
        next.push((step(Who::Rebuilder(which), what), after));
    }

    /// `update template_stock set epoch = greatest(epoch, ?) + 1`, with the gate's epoch. The gate may know a later one
    /// than MySQL, if its contents are wrong or MySQL has lost its newest transactions. Admissions of lost epochs may be
    /// under way although no gate knows them any more, so the first raise at another server leaps above them.
    pub(super) fn raise(&self, state: &mut State, which: usize, history: u8) {
        let by_one = self.has(Bug::EpochNotAboveTheGates);
        let known = if by_one { 0 } else { state.gate.epoch() };
        let truth = state.server_mut(history);
        let leaps = truth.known_history != history && !by_one && !self.has(Bug::RaiseWithoutLeap);
        truth.known_history = history;
        truth.epoch = truth.epoch.max(known) + 1 + if leaps { LEAP } else { 0 };
        let truth = *truth;
        if history == state.truth.history {
            self.check_raised(state);
        }
        let ended = truth.state == TemplateState::Ended;
        let next = match self.bounds.bug {
            Some(Bug::ClosedWithoutBegin) if ended => RebuildStep::Empty,
            Some(Bug::EndNotedBeforeBegin) => RebuildStep::NoteEnd,
            Some(Bug::RebuildWithoutBegin) => self.first_read(),
            _ => RebuildStep::Begin,
        };
        let rebuilder = &mut state.rebuilders[which];
        rebuilder.next = next;
        rebuilder.epoch = truth.epoch;
        rebuilder.history = history;
        rebuilder.never_queued = self.has(Bug::NeverQueuedAskedAtRaise) && !truth.ever_queued;
    }

    /// Takes a rebuilder's next step, or several that may be taken at once. `None`: it waits.
    pub(super) fn rebuild_next(&self, state: &mut State, which: usize) -> Option<&'static str> {
        loop {
            let step = state.rebuilders[which].next;
            let (next, what) = self.rebuild_step(state, which)?;
            state.rebuilders[which].next = next;
            if next == RebuildStep::NextEpoch {
                state.rebuilders[which] = Rebuilder::default();
            }
            if !self.bounds.coarse || !step.is_one_with(next) {
                return Some(what);
            }
        }
    }

    /// Returns the step after the next one; after the last, or if it gives up, the first.
    fn rebuild_step(&self, state: &mut State, which: usize) -> Option<(RebuildStep, &'static str)> {
        let epoch = state.rebuilders[which].epoch;
        let give_up = RebuildStep::NextEpoch;
        let next = state.rebuilders[which].next;
        Some(match next {
            RebuildStep::NextEpoch => return None,
            RebuildStep::Raise if state.truth.hidden.is_some() => return None,
            RebuildStep::Raise => {
                self.raise(state, which, state.truth.history);
                (RebuildStep::Begin, "raises the epoch")
            }
            RebuildStep::Begin if !self.begin(state, which) => (give_up, "begin.lua refuses"),
            RebuildStep::Begin if self.bounds.queues() => (RebuildStep::Empty, "begin.lua"),
            RebuildStep::Begin => (self.first_read(), "begin.lua"),
            RebuildStep::Empty | RebuildStep::NoteEnd | RebuildStep::Drain => {
                return self.drain(state, which);
            }
            RebuildStep::SetQueued if state.truth.hidden.is_some() => return None,
            RebuildStep::SetQueued => self.set_queued(state, which),
            RebuildStep::BeginAgain if !self.begin(state, which) => (give_up, "begin.lua refuses"),
            RebuildStep::BeginAgain if self.has(Bug::BegunAgainAfterRead) => {
                (self.first_load(), "begin.lua once more")
            }
            RebuildStep::BeginAgain => (self.first_read(), "begin.lua once more"),
            RebuildStep::Load => {
                if self.has(Bug::RebuildWithoutBegin) || self.load(state, which) {
                    (RebuildStep::Open, "load.lua, without what came back meanwhile")
                } else {
                    (give_up, "load.lua refuses")
                }
            }
            RebuildStep::Open => self.open(state, which),
            RebuildStep::CatchUp => {
                self.catch_up(state);
                (give_up, "move.lua, for what came meanwhile")
            }
            RebuildStep::Unload => {
                state.gate.unload(self.rules(), epoch, NOW);
                (give_up, "unload.lua")
            }
            RebuildStep::ReadTemplate
            | RebuildStep::ReadFirst
            | RebuildStep::ReadUser(_)
            | RebuildStep::ReadStock
            | RebuildStep::ReadMovement => self.read(state, which),
        })
    }

    /// Waits until all that was queued under older epochs has landed.
    fn drain(&self, state: &mut State, which: usize) -> Option<(RebuildStep, &'static str)> {
        let early = self.has(Bug::EndNotedBeforeBegin);
        let rebuilder = &mut state.rebuilders[which];
        Some(match rebuilder.next {
            RebuildStep::Empty => {
                let asked_early = self.has(Bug::NeverQueuedAskedAtRaise);
                let never =
                    if asked_early { rebuilder.never_queued } else { !state.truth.ever_queued };
                let left = state.gate.outbox.entries.as_slice();
                if never {
                    (RebuildStep::SetQueued, "the template was never queued")
                } else if !left.is_empty() && !self.has(Bug::OutboxNotEmptied) {
                    return None;
                } else {
                    let next = if early { RebuildStep::Drain } else { RebuildStep::NoteEnd };
                    (next, "the outbox is empty")
                }
            }
            RebuildStep::NoteEnd => {
                rebuilder.end = state.queue.end();
                let next = if early { RebuildStep::Begin } else { RebuildStep::Drain };
                (next, "notes the partition's end")
            }
            _ if state.queue.committed < rebuilder.end => return None,
            _ if self.has(Bug::ReadBeforeQueuedEpoch) => {
                (self.first_read(), "the committed offset has reached the end")
            }
            _ => (RebuildStep::SetQueued, "the committed offset has reached the end"),
        })
    }

    fn set_queued(&self, state: &mut State, which: usize) -> (RebuildStep, &'static str) {
        let Rebuilder { epoch, history, template, .. } = state.rebuilders[which];
        let truth = state.server_mut(history);
        if truth.state == TemplateState::Ended && truth.ever_queued {
            return if truth.close(epoch) {
                (RebuildStep::Unload, "closes the queue for good")
            } else {
                (RebuildStep::NextEpoch, "is overtaken")
            };
        }
        if !truth.set_queued_epoch(epoch) {
            return (RebuildStep::NextEpoch, "is overtaken");
        }
        let next = if self.has(Bug::ReadBeforeQueuedEpoch) && template.is_some() {
            self.first_load()
        } else if state.truth.ever_queued && !self.has(Bug::BegunAgainAfterRead) {
            RebuildStep::BeginAgain
        } else {
            self.first_read()
        };
        (next, "queued_epoch = epoch")
    }
}

impl RebuildStep {
    /// Returns whether `next` may be taken in the same step, where reads and loads are not explored one by one.
    fn is_one_with(self, next: Self) -> bool {
        let reads = |step: Self| {
            use RebuildStep::{ReadFirst, ReadMovement, ReadStock, ReadTemplate, ReadUser};
            matches!(step, ReadTemplate | ReadFirst | ReadUser(_) | ReadStock | ReadMovement)
        };
        reads(self) && reads(next) || self == Self::Load && next == Self::Open
    }
}
