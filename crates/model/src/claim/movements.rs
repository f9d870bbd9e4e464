//! The delivery of movements to the gate: by the process that made them, by the consumer of their topic, and by the
//! keeper.

use super::{LateKind, Next, Promise, Protocol, State, Who, dies, state::Packet, step};
use crate::{Bug, gate::Moved};

impl Protocol {
    /// Sends a visible movement to the gate; `after` is the state of the sender afterwards.
    pub(super) fn tell(&self, state: &State, after: State, who: Who, seq: u8, next: &mut Next) {
        let mut told = after;
        self.send_movement(&mut told, seq);
        next.push((step(who, "move.lua"), told));
        if self.may_be_late(state, LateKind::Move) {
            let epoch = state.gate.epoch();
            let late = Self::sent_late(&after, Packet::Move { seq, epoch });
            next.push((step(who, "move.lua is late"), late));
        }
    }

    /// `move.lua`. If the gate lacks earlier movements, those that MySQL shows are applied first. The message's own
    /// movement may not be visible there, so it is taken from the message. Each movement takes effect once, so all of
    /// this may be a single step.
    pub(super) fn send_movement(&self, state: &mut State, seq: u8) {
        let epoch = state.gate.epoch();
        let truth = state.truth;
        let own = truth.message(seq);
        let rules = self.rules();
        if let Moved::Gap(last) = state.gate.apply_movement(rules, epoch, seq, &own) {
            for (seq, movement) in truth.movements_after(last) {
                state.gate.apply_movement(rules, epoch, seq, &movement);
            }
            if seq > truth.movement && !self.has(Bug::OwnMessageDropped) {
                state.gate.apply_movement(rules, epoch, seq, &own);
            }
        }
    }

    /// Applies the visible movements that an open gate does not contain.
    pub(super) fn catch_up(&self, state: &mut State) {
        if let Some(meta) = state.gate.meta {
            let truth = state.truth;
            for (seq, movement) in truth.movements_after(meta.facts.movement) {
                state.gate.apply_movement(self.rules(), meta.epoch, seq, &movement);
            }
        }
    }

    /// What brings changes to the gate besides their sender: the consumer, or, in few steps, the keeper at any time.
    pub(super) fn deliver(&self, state: &State, next: &mut Next) {
        if !self.bounds.coarse {
            self.consume(state, next);
            return;
        }
        let mut after = *state;
        if self.send_state(&mut after) {
            next.push((step(Who::Keeper, "set_state.lua"), after));
        }
        let mut after = *state;
        if self.send_movements(&mut after) {
            next.push((step(Who::Keeper, "move.lua"), after));
        }
    }

    /// The consumer does not wait for a gate that is not open, because its rebuild or the keeper catches up.
    fn consume(&self, state: &State, next: &mut Next) {
        let who = Who::Consumer;
        let seq = state.consumed + 1;
        if seq <= state.truth.last_message() {
            let mut after = *state;
            self.send_movement(&mut after, seq);
            after.consumed = seq;
            let heard = |meta: crate::gate::Meta| meta.facts.movement >= seq;
            if after.gate.answering().is_some_and(|meta| !heard(meta)) {
                after.broken = Some(Promise::ConsumedIsContained);
            }
            next.push((step(who, "move.lua; its offset is stored"), after));
        }
        if state.consumed > 0 {
            // With its offsets.
            dies(state, who, next, |dead| dead.consumed = 0);
        }
    }
}
