//! The operator's movements, and the delivery of all movements to the gate: by the process that made them, and by the
//! consumer of their topic.

use super::{
    Change, LateKind, Next, Protocol, State, Step, Who,
    ledger::{Movement, Transaction},
    state::Packet,
};
use crate::{Bug, gate::Moved};

impl Protocol {
    pub(in crate::holds) fn operate(&self, state: &State, next: &mut Next) {
        let who = Who::Operator;
        let tell = state.operator.tell;
        let mut after = *state;
        if tell > 0 {
            after.operator.tell = 0;
            if tell <= state.truth.movement {
                self.tell(state, after, who, tell, next);
            }
            if state.left.crashes > 0 {
                let mut died = after;
                died.left.crashes -= 1;
                next.push((Step { who, what: "dies" }, died));
            }
            return;
        }
        let committed = usize::from(state.operator.committed);
        let Some(change) = self.bounds.changes.get(committed) else { return };
        if state.truth.hidden.is_some() {
            return;
        }
        after.operator.committed += 1;
        let (what, transaction) = match change {
            Change::Move(delta) => ("moves the stock in MySQL", state.truth.moved(*delta)),
            Change::Lift(user) if self.bounds.has(Bug::LiftWithoutSeq) => {
                after.truth.lapses[usize::from(*user)].count = 0;
                if let Some(entry) = &mut after.gate.users[usize::from(*user)] {
                    entry.lapses = 0;
                }
                ("lifts a ban in MySQL and at the gate", None)
            }
            Change::Lift(user) => {
                ("lifts a ban in MySQL", Some(Transaction::of(Movement::lift(*user))))
            }
        };
        if let Some(transaction) = transaction {
            after.operator.tell = state.truth.movement + 1;
            self.commit(&mut after, transaction);
        }
        next.push((Step { who, what }, after));
    }

    /// Sends a visible movement to the gate; `after` is the state of the sender afterwards.
    pub(in crate::holds) fn tell(
        &self,
        state: &State,
        after: State,
        who: Who,
        seq: u8,
        next: &mut Next,
    ) {
        let mut told = after;
        self.send_movement(&mut told, seq);
        next.push((Step { who, what: "move.lua" }, told));
        if self.may_be_late(state, LateKind::Move) {
            let late = Self::sent_late(&after, Packet::Move { seq, epoch: state.gate_epoch() });
            next.push((Step { who, what: "move.lua is late" }, late));
        }
    }

    /// `move.lua`. If the gate lacks earlier movements, those that MySQL shows are applied first. The message's own
    /// movement may not be visible there, so it is taken from the message. Each movement takes effect once, so all of
    /// this may be a single step.
    pub(in crate::holds) fn send_movement(&self, state: &mut State, seq: u8) {
        let epoch = state.gate_epoch();
        let truth = state.truth;
        let own = truth.message(seq);
        let mut call = |seq, movement| state.gate.apply(&self.bounds, epoch, seq, movement);
        if let Moved::Gap(last) = call(seq, own) {
            for (seq, movement) in truth.movements_after(last) {
                call(seq, movement);
            }
            if seq > truth.movement && !self.bounds.has(Bug::OwnMessageDropped) {
                call(seq, own);
            }
        }
    }

    /// Applies the visible movements that an open gate does not contain.
    pub(in crate::holds) fn catch_up(&self, state: &mut State) {
        if let Some(meta) = state.gate.meta {
            for (seq, movement) in state.truth.movements_after(meta.movement) {
                state.gate.apply(&self.bounds, meta.epoch, seq, movement);
            }
        }
    }

    /// The consumer does not wait for a gate that is not open, because its rebuild or the keeper catches up.
    pub(in crate::holds) fn consume(&self, state: &State, next: &mut Next) {
        let who = Who::Consumer;
        let seq = state.consumed + 1;
        if seq <= state.truth.last_message() {
            let mut after = *state;
            self.send_movement(&mut after, seq);
            after.consumed = seq;
            let heard = after.gate.meta.is_some_and(|meta| meta.movement >= seq);
            if self.is_open(&after) && !heard {
                after.broken = Some(super::Promise::ConsumedIsContained);
            }
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
