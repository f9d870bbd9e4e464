//! A queued claim, from the gate to its 202.

use coupon::AcceptAfter;

use super::{
    super::{
        Next, Protocol, State,
        queue::state::bit,
        state::{At, BoundGate, Walk},
    },
    claim,
};
use crate::{Bug, gate::Message};

impl Protocol {
    /// Goes on with a claim that is in the outbox.
    pub(super) fn queued(&self, state: &mut State, id: u8, message: Message, wrote: bool) {
        let run = state.gate.run;
        let walk = state.walk_mut(id);
        *walk = Walk { message, run, wrote, wait: walk.wait, ..Walk::default() };
        let look = state.gate.entry(self.attempt(id).user).look_in_mysql;
        if look && !self.has(Bug::QueuedWithoutLook) {
            state.walk_mut(id).at = At::LookAgain;
        } else {
            self.go_on_queued(state, id);
        }
    }

    /// The step that a queued claim waits for before its 202.
    pub(super) fn go_on_queued(&self, state: &mut State, id: u8) {
        match self.bounds.accept_after {
            AcceptAfter::Gate => self.accept(state, id, state.walk(id).message.id),
            AcceptAfter::Replica => state.walk_mut(id).at = At::Wait,
            AcceptAfter::Topic => state.walk_mut(id).at = At::Publish,
        }
    }

    pub(super) fn publish(&self, state: &State, id: u8, next: &mut Next) {
        let message = state.walk(id).message;
        let mut after = state.with_walk(id, At::Confirm);
        if after.queue.publish(message) {
            if self.has(Bug::NotConfirmed) {
                self.accept(&mut after, id, message.id);
            }
            next.push((claim(id, "publishes the entry itself, acked"), after));
        }
    }

    pub(super) fn confirm(&self, state: &State, id: u8, next: &mut Next) {
        let Walk { message, run, .. } = *state.walk(id);
        let mut after = *state;
        let what = if after.gate.published(self.rules(), message, run) {
            self.accept(&mut after, id, message.id);
            "published.lua: the same gate; 202"
        } else {
            after.end(id, At::Done);
            "published.lua: another gate; 503 with Location"
        };
        next.push((claim(id, what), after));
    }

    /// WAIT on the connection of `claim.lua`. Either a replica has everything that this connection wrote, or too few
    /// replicas answer in time.
    pub(super) fn wait(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walk(id);
        let mut waited = *state;
        if walk.run == state.gate.run {
            let has = |gate: &BoundGate| {
                gate.run == state.gate.run
                    && matches!(gate.live(), Some(meta) if meta.epoch == walk.message.epoch)
                    && gate.request(walk.message.id).is_some()
            };
            let waits = walk.wrote && !self.has(Bug::WaitOnAnotherConnection);
            if waits && !state.copy.as_ref().is_some_and(has) {
                waited.copy = Some(state.gate);
            }
            self.accept(&mut waited, id, walk.message.id);
            next.push((claim(id, "WAIT: a replica has it; 202"), waited));
        }
        let mut fewer = *state;
        fewer.end(id, At::Done);
        next.push((claim(id, "WAIT: none in time; 503 with Location"), fewer));
    }

    /// Answers 202.
    pub(super) fn accept(&self, state: &mut State, id: u8, admission: u8) {
        let epoch = state.queue.receipts[usize::from(admission)];
        if epoch != state.lied {
            state.queue.kept |= bit(admission) & !state.queue.excused & !state.servers.lost;
        }
        state.answer(id);
    }
}
