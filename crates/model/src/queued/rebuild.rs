//! A rebuild. It first begins a new epoch for direct landings. Queued claims of the old epoch still land; the gate is
//! loaded only after the queue is drained. After the template's end the same steps close the queue.

use coupon::TemplateState;

use super::{
    Next, Protocol, State, Who,
    bounds::{IDS, USERS_MAX},
    gate::{Facts, User},
    is_next,
    state::{RebuildStep, Rebuilder},
    step,
    truth::{Open, Row, Truth},
};
use crate::Bug;

impl Protocol {
    pub(super) fn rebuild(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Rebuilder(which);
        let idle = Rebuilder::default();
        if state.rebuilders[which] == idle {
            let may = state.left.rebuilds > 0 && !self.is_closed(state);
            if may && is_next(&state.rebuilders, which, &idle) {
                let mut raised = *state;
                raised.left.rebuilds -= 1;
                self.raise(&mut raised, which);
                next.push((step(who, "raises MySQL's epoch"), raised));
            }
            return;
        }
        let mut after = *state;
        if let Some(what) = self.rebuild_next(&mut after, which) {
            next.push((step(who, what), after));
        }
        if state.left.crashes > 0 {
            let mut dead = *state;
            dead.left.crashes -= 1;
            dead.rebuilders[which] = idle;
            next.push((step(who, "dies"), dead));
        }
    }

    /// `update template_stock set epoch = greatest(epoch, ?) + 1`, with the gate's epoch. The gate may know a later one
    /// than MySQL, if its contents are wrong or MySQL has lost its newest transactions.
    pub(super) fn raise(&self, state: &mut State, which: usize) {
        let known = state.gate.meta.map_or(0, |meta| meta.epoch);
        let known = if self.bounds.has(Bug::EpochNotAboveTheGates) { 0 } else { known };
        state.truth.epoch = state.truth.epoch.max(known) + 1;
        let ended = state.truth.state == TemplateState::Ended;
        let next = match self.bounds.bug {
            Some(Bug::ClosedWithoutBegin) if ended => RebuildStep::Empty,
            Some(Bug::EndNotedBeforeBegin) => RebuildStep::NoteEnd,
            _ => RebuildStep::Begin,
        };
        let never_queued =
            self.bounds.has(Bug::NeverQueuedAskedAtRaise) && !state.truth.ever_queued;
        let epoch = state.truth.epoch;
        state.rebuilders[which] = Rebuilder { next, epoch, never_queued, ..Rebuilder::default() };
    }

    /// Takes a rebuilder's next step. `None`: it waits.
    pub(super) fn rebuild_next(&self, state: &mut State, which: usize) -> Option<&'static str> {
        let Rebuilder { next, epoch, end, .. } = state.rebuilders[which];
        let early = self.bounds.has(Bug::EndNotedBeforeBegin);
        let done = |taken: bool, next| if taken { next } else { RebuildStep::Raise };
        let (next, what) = match next {
            RebuildStep::Raise => return None,
            RebuildStep::Begin => (done(state.gate.begin(epoch), RebuildStep::Empty), "begin.lua"),
            RebuildStep::Empty => {
                let queued = if self.bounds.has(Bug::NeverQueuedAskedAtRaise) {
                    !state.rebuilders[which].never_queued
                } else {
                    state.truth.ever_queued
                };
                let drained = self.bounds.has(Bug::OutboxNotEmptied)
                    || state.gate.outbox.as_slice().is_empty();
                match (queued, drained) {
                    (false, _) => (RebuildStep::SetQueued, "the template was never queued"),
                    (true, true) if early => (RebuildStep::Drain, "the outbox is empty"),
                    (true, true) => (RebuildStep::NoteEnd, "the outbox is empty"),
                    (true, false) => return None,
                }
            }
            RebuildStep::NoteEnd => {
                state.rebuilders[which].end = state.topic_end();
                let next = if early { RebuildStep::Begin } else { RebuildStep::Drain };
                (next, "notes the partition's end")
            }
            RebuildStep::Drain if state.committed < end => return None,
            RebuildStep::Drain if self.bounds.has(Bug::ReadBeforeQueuedEpoch) => {
                (RebuildStep::Read, "the committed offset has reached the end")
            }
            RebuildStep::Drain => {
                (RebuildStep::SetQueued, "the committed offset has reached the end")
            }
            RebuildStep::SetQueued => self.set_queued(state, which),
            RebuildStep::BeginAgain => {
                let late = self.bounds.has(Bug::BegunAgainAfterRead);
                let next = if late { RebuildStep::Open } else { RebuildStep::Read };
                (done(state.gate.begin(epoch), next), "begin.lua once more")
            }
            RebuildStep::Read => self.read_facts(state, which),
            RebuildStep::Open => {
                let facts = state.rebuilders[which].facts?;
                let opened = state.gate.open(epoch, &facts);
                (RebuildStep::Raise, if opened { "open.lua" } else { "open.lua refuses" })
            }
            RebuildStep::Unload => {
                state.gate.unload(epoch);
                (RebuildStep::Raise, "unload.lua")
            }
        };
        state.rebuilders[which].next = next;
        if next == RebuildStep::Raise {
            state.rebuilders[which] = Rebuilder::default();
        }
        Some(what)
    }

    fn set_queued(&self, state: &mut State, which: usize) -> (RebuildStep, &'static str) {
        let epoch = state.rebuilders[which].epoch;
        if state.truth.state == TemplateState::Ended {
            return if state.truth.close(epoch) {
                (RebuildStep::Unload, "closes the queue for good")
            } else {
                (RebuildStep::Raise, "is overtaken")
            };
        }
        let read_already = self.bounds.has(Bug::ReadBeforeQueuedEpoch);
        match state.truth.set_queued_epoch(epoch) {
            true if read_already && state.rebuilders[which].facts.is_some() => {
                (RebuildStep::Open, "queued_epoch = epoch")
            }
            true if state.truth.ever_queued && !self.bounds.has(Bug::BegunAgainAfterRead) => {
                (RebuildStep::BeginAgain, "queued_epoch = epoch")
            }
            true => (RebuildStep::Read, "queued_epoch = epoch"),
            false => (RebuildStep::Raise, "is overtaken"),
        }
    }

    /// Reads template, stock, last movement, numbers and rejected keys at one moment; `claim` explores separate reads.
    fn read_facts(&self, state: &mut State, which: usize) -> (RebuildStep, &'static str) {
        let truth = state.truth;
        if truth.epoch != state.rebuilders[which].epoch {
            return (RebuildStep::Raise, "finds another epoch in MySQL");
        }
        let mut users = [User::default(); USERS_MAX];
        for (user, entry) in (0..).zip(&mut users) {
            entry.taken = self.landed_numbers(&truth, user);
            let rejected = (0..IDS as u8).any(|id| {
                self.attempt(id).user == user && matches!(truth.row(id), Row::Rejected(_))
            });
            let landed = entry.taken.count() > 0;
            entry.look = landed && !self.bounds.has(Bug::LandedKeysNotLoaded)
                || rejected && !self.bounds.has(Bug::RejectedKeysNotLoaded);
        }
        state.rebuilders[which].facts = Some(Facts {
            version: truth.version,
            state: truth.state,
            mode: truth.mode,
            stock: truth.stock,
            movement: truth.movement,
            users,
        });
        let set_next = self.bounds.has(Bug::ReadBeforeQueuedEpoch);
        let next = if set_next {
            RebuildStep::SetQueued
        } else if self.bounds.has(Bug::BegunAgainAfterRead) {
            RebuildStep::BeginAgain
        } else {
            RebuildStep::Open
        };
        (next, "reads MySQL")
    }

    /// Returns whether the queue was closed for good, so that no gate is needed.
    pub(super) fn is_closed(&self, state: &State) -> bool {
        let Truth { closed, state: template, open, .. } = state.truth;
        let refusing = template == TemplateState::Ended && open == Open::Nothing;
        closed || refusing && self.bounds.has(Bug::RefusingTakenForClosed)
    }
}
