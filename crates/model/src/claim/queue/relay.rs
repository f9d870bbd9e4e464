//! The outbox relay. A lease determines whose leftovers a relay reads. No promise depends on the lease, so here any
//! relay may read any entry.

use coupon::AcceptAfter;

use super::{
    super::{Next, Protocol, State, Who, dies, is_next, state::BoundGate, step, truth::Reason},
    state::{Relay, bit},
};
use crate::{Bug, gate::OutboxEntry};

impl Protocol {
    pub(super) fn relay(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Relay(which);
        match state.queue.relays[which] {
            Relay::Idle => {
                if state.left.reads > 0 && is_next(&state.queue.relays, which, &Relay::Idle) {
                    self.read_outbox(state, which, next);
                }
                return;
            }
            Relay::Publish { entry, run } => self.relay_entry(state, which, entry, run, next),
            Relay::Trim { at, run } => {
                let mut trimmed = *state;
                if run == state.gate.run || self.has(Bug::TrimWithoutRun) {
                    trimmed.gate.outbox.trim(at);
                }
                trimmed.queue.relays[which] = Relay::Idle;
                next.push((step(who, "XACK and XDEL"), trimmed));
            }
        }
        dies(state, who, next, |dead| dead.queue.relays[which] = Relay::Idle);
    }

    fn relay_entry(
        &self,
        state: &State,
        which: usize,
        entry: OutboxEntry,
        run: u8,
        next: &mut Next,
    ) {
        let who = Who::Relay(which);
        let trim = Relay::Trim { at: entry.at, run };
        let id = entry.message.id;
        let mut sent = *state;
        sent.queue.relays[which] = trim;
        if sent.queue.publish(entry.message) {
            next.push((step(who, "publishes its entry, acked"), sent));
        }
        if state.left.refusals > 0 {
            let mut refused = *state;
            refused.left.refusals -= 1;
            refused.queue.relays[which] = trim;
            // The claim is lost with the next epoch. Only with `topic` a 202 means that its message is there.
            if self.bounds.accept_after != AcceptAfter::Topic {
                refused.queue.excused |= bit(id);
                refused.queue.kept &= !refused.queue.excused;
            }
            if self.has(Bug::RelayRejects) {
                refused.truth.reject(self.claims(), id, Reason::Failed);
            }
            next.push((step(who, "the broker refuses its entry for good"), refused));
        }
    }

    fn read_outbox(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Relay(which);
        if self.has(Bug::GroupFromNow) && !state.gate.outbox.group {
            let mut made = *state;
            make_group_from_now(&mut made);
            next.push((step(who, "makes its group, which begins at the stream's end"), made));
        }
        for entry in self.delivered(&state.gate) {
            let mut read = *state;
            read.left.reads -= 1;
            self.take_entry(&mut read, entry.at);
            read.queue.relays[which] = Relay::Publish { entry, run: state.gate.run };
            next.push((step(who, "reads an entry"), read));
        }
    }

    /// The entries that the consumer group gives a relay: new ones, its own leftovers, and those of dead relays.
    fn delivered(&self, gate: &BoundGate) -> Vec<OutboxEntry> {
        let first = self.has(Bug::GroupFromNow) && !gate.outbox.group;
        let entries = gate.outbox.entries.as_slice().iter();
        entries.filter(|entry| !entry.passed && !first).copied().collect()
    }

    /// Changes Redis as a read by the relay does; only planted mistakes depend on it.
    fn take_entry(&self, state: &mut State, at: u8) {
        if self.has(Bug::TrimBeforeAck) {
            state.gate.outbox.trim(at);
        }
        if self.has(Bug::LeftoversNotRead) {
            let entries = state.gate.outbox.entries.as_mut_slice().iter_mut();
            entries.filter(|entry| entry.at == at).for_each(|entry| entry.passed = true);
        }
    }

    /// At rest: publishes all entries. Returns whether there was one.
    pub(in crate::claim) fn empty_outbox(&self, state: &mut State) -> bool {
        if self.has(Bug::GroupFromNow) && !state.gate.outbox.group {
            make_group_from_now(state);
        }
        let mut worked = false;
        for entry in self.delivered(&state.gate) {
            if state.queue.publish(entry.message) {
                state.gate.outbox.trim(entry.at);
                worked = true;
            }
        }
        worked
    }
}

fn make_group_from_now(state: &mut State) {
    state.gate.outbox.group = true;
    for entry in state.gate.outbox.entries.as_mut_slice() {
        entry.passed = true;
    }
}
