//! The keeper: rebuilds a gate that is lost, behind or wrong, repairs its state and movements if an update was lost,
//! and unloads it once its template has ended.

use coupon::TemplateState;

use super::{
    NOW, Next, Promise, Protocol, State, Step, Who,
    state::{Look, RebuildStep},
};
use crate::{
    Bug,
    gate::{Meta, Phase, Unloaded},
};

impl Protocol {
    /// The keeper's check of the gate's stock, with its two reads as separate steps, and unloading. The other parts of
    /// a check only begin a rebuild, and the search begins rebuilds at any time anyway.
    pub(super) fn look(&self, state: &State, next: &mut Next) {
        let who = Who::Keeper;
        let mut after = *state;
        after.look = None;
        if state.truth.state == TemplateState::Ended {
            let epoch = state.gate.meta.map_or(0, |meta| meta.epoch);
            if after.gate.unload(self.rules(), epoch, NOW) == Unloaded::Gone {
                next.push((Step { who, what: "unload.lua" }, after));
            }
            return;
        }
        if let Some(look) = state.look {
            if state.gate.meta.is_some_and(|meta| self.promises_too_much(&meta, &look)) {
                self.find_drift(&mut after);
            }
            next.push((Step { who, what: "reads the gate" }, after));
        } else if state.left.looks > 0 {
            after.left.looks -= 1;
            after.look = Some(Look::of(state));
            next.push((Step { who, what: "reads MySQL" }, after));
        }
    }

    fn find_drift(&self, state: &mut State) {
        let Some(meta) = state.gate.meta else { return };
        state.wrong = state.wrong.max(meta.epoch);
        if meta.epoch != state.lied {
            state.broken = Some(Promise::NoNeedlessEpoch);
        }
    }

    /// Returns whether the keeper's next check leads to a new epoch.
    pub(super) fn must_rebuild(&self, state: &State) -> bool {
        let Some(meta) = state.gate.meta else {
            // An ended template needs no gate.
            return state.truth.state != TemplateState::Ended;
        };
        let behind = meta.epoch < state.truth.epoch && !self.bounds.has(Bug::KeeperIgnoresEpoch);
        let other_run = meta.run != state.gate.run;
        meta.phase == Phase::Loading
            || other_run
            || behind
            || !state.gate.is_complete()
            || state.wrong >= meta.epoch
            || self.promises_too_much(&meta, &Look::of(state))
    }

    /// Returns whether the keeper's next check updates the state in the gate.
    pub(super) fn state_is_behind(&self, state: &State) -> bool {
        let behind = |version| version < state.truth.version;
        let known = state.gate.meta.is_some_and(|meta| behind(meta.facts.version));
        known && !self.bounds.has(Bug::KeeperIgnoresVersion)
    }

    /// Returns whether the keeper's next check applies movements to the gate.
    pub(super) fn movement_is_behind(&self, state: &State) -> bool {
        let behind = |movement| movement < state.truth.movement;
        let known = state.gate.meta.is_some_and(|meta| behind(meta.facts.movement));
        known && !self.bounds.has(Bug::KeeperIgnoresMovement)
    }

    /// One complete check, while no other process is at work.
    pub(super) fn keep(&self, state: &mut State) {
        if self.must_rebuild(state) {
            state.truth.epoch += 1;
            let mut rebuilder = self.after_next_epoch(state.truth.epoch);
            while rebuilder.next != RebuildStep::NextEpoch {
                (_, rebuilder) = self.rebuild_step(state, rebuilder);
            }
            return;
        }
        let epoch = state.gate.meta.map_or(0, |meta| meta.epoch);
        if self.state_is_behind(state) {
            let version = state.truth.version;
            let current = state.truth.state;
            state.gate.set_state(self.rules(), epoch, version, current);
        }
        if self.movement_is_behind(state) {
            self.catch_up(state);
        }
    }

    /// Returns whether the gate's stock exceeds the one that MySQL had at the first read. A correct gate holds MySQL's
    /// stock less what is in flight. Between the reads only movements can raise MySQL's stock.
    fn promises_too_much(&self, meta: &Meta, before: &Look) -> bool {
        let same = meta.facts.movement == before.movement
            || self.bounds.has(Bug::KeeperIgnoresMovementsInStock);
        let readable = meta.phase == Phase::Open && meta.epoch >= before.epoch;
        readable && same && meta.facts.stock > before.stock
    }
}

impl Look {
    fn of(state: &State) -> Self {
        let super::truth::Truth { epoch, stock, movement, .. } = state.truth;
        Self { epoch, stock, movement }
    }
}
