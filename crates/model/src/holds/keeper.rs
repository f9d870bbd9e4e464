//! The keeper: rebuilds a gate that is lost, behind or wrong, and brings it movements that were lost on their way.

use super::{
    Next, Promise, Protocol, State, Step, Who,
    gate::Meta,
    state::{Look, RebuildStep},
};
use crate::{Bug, gate::Phase};

impl Protocol {
    /// The check of the gate's stock, with its two reads as separate steps. The other parts of a check lead to a
    /// rebuild, which may begin at any time anyway.
    pub(super) fn look(&self, state: &State, next: &mut Next) {
        let who = Who::Keeper;
        let mut after = *state;
        after.look = None;
        let epoch = state.gate_epoch();
        if let Some(look) = state.look {
            if state.gate.meta.is_some_and(|meta| self.holds_too_much(state, &meta, &look)) {
                after.wrong = after.wrong.max(epoch);
                if epoch != state.lied {
                    after.broken = Some(Promise::NoNeedlessEpoch);
                }
            }
            next.push((Step { who, what: "reads the gate, then the movements between" }, after));
        } else if state.left.looks > 0 {
            after.left.looks -= 1;
            after.look = Some(Look::of(state));
            next.push((Step { who, what: "reads MySQL" }, after));
        }
    }

    /// Returns whether the gate has more to give than MySQL had before, with the movements between the two reads. A
    /// correct gate holds MySQL's stock less what is in flight, and between the reads MySQL's stock only falls, except
    /// by movements. A gate that contains a movement which MySQL does not show yet is not judged.
    fn holds_too_much(&self, state: &State, meta: &Meta, before: &Look) -> bool {
        let visible =
            meta.movement <= state.truth.movement || self.bounds.has(Bug::KeeperJudgesTheUnseen);
        if meta.phase != Phase::Open || meta.epoch < before.epoch || !visible {
            return false;
        }
        let between = if self.bounds.has(Bug::KeeperIgnoresReturns) {
            0
        } else {
            state.truth.delta_between(before.movement, meta.movement)
        };
        meta.stock > before.stock + between
    }

    /// Returns whether the keeper's next check leads to a new epoch.
    pub(super) fn must_rebuild(&self, state: &State) -> bool {
        let Some(meta) = state.gate.meta else { return true };
        meta.phase == Phase::Loading
            || meta.run != state.gate.run
            || meta.epoch < state.truth.epoch
            || !state.gate.is_complete()
            || state.wrong >= meta.epoch
            || self.holds_too_much(state, &meta, &Look::of(state))
    }

    /// One complete check, while no other process is at work.
    pub(super) fn keep(&self, state: &mut State) {
        if self.must_rebuild(state) {
            state.truth.epoch += 1;
            let mut rebuilder = Self::after_next_epoch(state.truth.epoch);
            while rebuilder.next != RebuildStep::NextEpoch {
                (_, rebuilder) = self.rebuild_step(state, rebuilder);
            }
        } else if !self.bounds.has(Bug::KeeperLeavesMovements) {
            self.catch_up(state);
        }
    }
}

impl Look {
    fn of(state: &State) -> Self {
        let super::truth::Truth { epoch, stock, movement, .. } = state.truth;
        Self { epoch, stock, movement }
    }
}
