//! The operator's changes on their way to the gate, and a Redis that loses everything, goes back, or holds wrong
//! contents.

use super::{
    Next, Protocol, State, Who,
    bounds::{AcceptAfter, Change, IDS, USERS_MAX},
    gate::{Gate, Meta, Request, User},
    step,
};

/// How much later a wrong epoch is: more than there are rebuilds.
const LATER: u8 = 100;

impl Protocol {
    /// The operator commits a change. It reaches the gate at any time after that.
    pub(super) fn operate(&self, state: &State, next: &mut Next) {
        if let Some(change) = self.bounds.changes.get(usize::from(state.changed)) {
            let mut after = *state;
            after.changed += 1;
            after.truth.change(*change);
            let what = match change {
                Change::Pause | Change::PauseReject => "pauses",
                Change::Resume => "resumes",
                Change::End | Change::EndReject => "ends the template",
                Change::Move(_) => "moves the stock",
                Change::Mode(_) => "changes the mode",
            };
            next.push((step(Who::Operator, what), after));
        }
        let mut after = *state;
        if Self::send_state(&mut after) {
            next.push((step(Who::Keeper, "set_state.lua"), after));
        }
        let mut after = *state;
        if Self::send_movements(&mut after) {
            next.push((step(Who::Keeper, "move.lua"), after));
        }
    }

    /// `set_state.lua`, also while the gate is loading. Returns whether the state was new to the gate.
    pub(super) fn send_state(state: &mut State) -> bool {
        let truth = state.truth;
        let behind = |meta: &Meta| meta.version < truth.version;
        let Some(meta) = state.gate.live().filter(behind) else { return false };
        let version = truth.version;
        let mode = truth.mode;
        state.gate.meta = Some(Meta { version, mode, state: truth.state, ..meta });
        true
    }

    /// `move.lua` for all movements that the gate does not contain.
    pub(super) fn send_movements(state: &mut State) -> bool {
        let truth = state.truth;
        let behind = |meta: &Meta| meta.movement < truth.movement;
        let Some(meta) = state.gate.answering().filter(behind) else { return false };
        let unheard = usize::from(meta.movement)..usize::from(truth.movement);
        let stock: i16 = truth.deltas[unheard].iter().sum();
        let stock = meta.stock + stock;
        let movement = truth.movement;
        state.gate.meta = Some(Meta { stock, movement, ..meta });
        true
    }

    pub(super) fn strike(&self, state: &State, next: &mut Next) {
        let forgets = |after: &mut State, hold: &[AcceptAfter]| {
            after.gate.run = state.gate.run + 1;
            after.replica = None;
            if !hold.contains(&self.bounds.accept_after) {
                after.kept = 0;
            }
        };
        if state.left.losses > 0 {
            let mut lost = *state;
            lost.left.losses -= 1;
            lost.gate = Gate::empty(0);
            forgets(&mut lost, &[AcceptAfter::Topic]);
            next.push((step(Who::Redis, "forgets everything, the outbox too"), lost));
        }
        if state.left.rewinds > 0 {
            let mut after = *state;
            if let Some(replica) = state.replica {
                after.left.rewinds -= 1;
                after.gate = replica;
                forgets(&mut after, &[AcceptAfter::Topic, AcceptAfter::Replica]);
                next.push((step(Who::Redis, "goes on with what its replica has"), after));
            } else {
                after.replica = Some(state.gate);
                next.push((step(Who::Redis, "its replica has everything up to here"), after));
            }
        }
        if let (Some(meta), true) = (state.gate.answering(), state.left.lies > 0) {
            let mut lie = *state;
            lie.left.lies -= 1;
            lie.lied = meta.epoch;
            lie.kept = 0;
            let mut more = lie;
            more.gate.meta = Some(Meta { stock: meta.stock + 1, ..meta });
            next.push((step(Who::Redis, "the gate believes in one coupon more"), more));
            let mut later = lie;
            later.lied = meta.epoch + LATER;
            later.gate.meta = Some(Meta { epoch: later.lied, ..meta });
            // What it knows of users belongs to its epoch.
            later.gate.users = [User::default(); USERS_MAX];
            later.gate.requests = [Request::Absent; IDS];
            next.push((step(Who::Redis, "the gate believes in a later epoch"), later));
            lie.gate.users = [User::default(); USERS_MAX];
            next.push((step(Who::Redis, "the gate forgets the users' numbers"), lie));
        }
    }
}
