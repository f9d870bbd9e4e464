//! The operator's changes: first in MySQL, then at once in the gate. The consumer of their topic applies movements to
//! the gate once more.

use coupon::TemplateState;

use super::{Change, LateKind, Next, Protocol, State, Step, Who, state::Packet};
use crate::gate::Moved;

impl Protocol {
    pub(super) fn operate(&self, state: &State, next: &mut Next) {
        if state.operator.must_send {
            self.send_last_change(state, next);
            return;
        }
        let Some(change) = self.bounds.changes.get(usize::from(state.operator.committed)) else {
            return;
        };
        let mut after = *state;
        after.operator.committed += 1;
        after.operator.must_send = match change {
            Change::Pause => after.truth.change_state(TemplateState::Paused),
            Change::Resume => after.truth.change_state(TemplateState::Published),
            Change::End => after.truth.change_state(TemplateState::Ended),
            Change::Move(delta) => after.truth.add_movement(*delta),
            // A change of validity is not sent to the gate; the keeper updates the version there.
            Change::Validity => {
                after.truth.change_validity();
                false
            }
        };
        let what = match change {
            Change::Pause => "pauses in MySQL",
            Change::Resume => "resumes in MySQL",
            Change::End => "ends in MySQL",
            Change::Move(_) => "moves the stock in MySQL",
            Change::Validity => "changes the validity in MySQL",
        };
        next.push((Step { who: Who::Operator, what }, after));
    }

    /// Sends the last change to the gate. An absent gate reads MySQL when it is rebuilt.
    fn send_last_change(&self, state: &State, next: &mut Next) {
        let who = Who::Operator;
        let last = usize::from(state.operator.committed) - 1;
        let moves = matches!(self.bounds.changes[last], Change::Move(_));
        let mut after = *state;
        after.operator.must_send = false;
        if state.left.crashes > 0 {
            let mut died = after;
            died.left.crashes -= 1;
            died.operator.send_lost |= !moves;
            next.push((Step { who, what: "dies before it updates the gate" }, died));
        }
        let epoch = state.gate.meta.map_or(0, |meta| meta.epoch);
        let truth = state.truth;
        let (kind, packet, what) = if moves {
            let seq = truth.movement;
            (LateKind::Move, Packet::Move { seq, epoch }, "move.lua is late")
        } else {
            let packet = Packet::SetState { state: truth.state, version: truth.version, epoch };
            (LateKind::SetState, packet, "set_state.lua is late")
        };
        if self.may_be_late(state, kind) {
            next.push((Step { who, what }, Self::sent_late(&after, packet)));
        }
        let what = if moves {
            self.send_movement(&mut after, truth.movement);
            "move.lua"
        } else {
            after.gate.set_state(self.rules(), epoch, truth.version, truth.state);
            "set_state.lua"
        };
        next.push((Step { who, what }, after));
    }

    /// `move.lua`. If the gate lacks earlier movements, they are read from MySQL and applied first. Each movement takes
    /// effect once, so all of this may be a single step.
    pub(super) fn send_movement(&self, state: &mut State, seq: u8) {
        let epoch = state.gate.meta.map_or(0, |meta| meta.epoch);
        let mut call = |seq, delta| state.gate.apply_movement(self.rules(), epoch, seq, delta);
        let truth = state.truth;
        let delta = truth.deltas[usize::from(seq) - 1];
        if let Moved::Gap(last) = call(seq, delta) {
            for (seq, delta) in truth.movements_after(last) {
                call(seq, delta);
            }
        }
    }

    /// Applies the movements in MySQL that an open gate does not contain.
    pub(super) fn catch_up(&self, state: &mut State) {
        if let Some(meta) = state.gate.meta {
            for (seq, delta) in state.truth.movements_after(meta.facts.movement) {
                state.gate.apply_movement(self.rules(), meta.epoch, seq, delta);
            }
        }
    }

    pub(super) fn consume(&self, state: &State, next: &mut Next) {
        let who = Who::Consumer;
        let seq = state.consumed + 1;
        if seq <= state.truth.movement {
            let mut after = *state;
            // The consumer does not wait for a loading gate, because its rebuild catches up.
            self.send_movement(&mut after, seq);
            after.consumed = seq;
            next.push((Step { who, what: "move.lua; its offset is stored" }, after));
        }
        if state.consumed > 0 && state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            died.consumed = 0;
            next.push((Step { who, what: "dies; its offsets are lost" }, died));
        }
    }
}
