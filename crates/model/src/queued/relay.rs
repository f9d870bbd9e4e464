//! The outbox relay. A lease determines whose leftovers a relay reads. No promise depends on the lease, so here any
//! relay may read any entry.

use super::{
    Next, Protocol, State, Who, bit, bounds::AcceptAfter, is_next, state::Relay, step,
    truth::Reason,
};
use crate::Bug;

impl Protocol {
    pub(super) fn relay(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Relay(which);
        match state.relays[which] {
            Relay::Idle => {
                if state.left.reads > 0 && is_next(&state.relays, which, &Relay::Idle) {
                    self.read_outbox(state, which, next);
                }
            }
            Relay::Publish { entry, run } => {
                let trim = Relay::Trim { at: entry.at, run };
                let mut sent = *state;
                sent.relays[which] = trim;
                if sent.publish(entry.message) {
                    next.push((step(who, "publishes its entry, acked"), sent));
                }
                if state.left.refusals > 0 {
                    let mut refused = *state;
                    refused.left.refusals -= 1;
                    refused.relays[which] = trim;
                    // The claim is lost with the next epoch. Only with `topic` a 202 means that its message is there.
                    if self.bounds.accept_after != AcceptAfter::Topic {
                        refused.excused |= bit(entry.message.id);
                        refused.kept &= !refused.excused;
                    }
                    if self.bounds.has(Bug::RelayRejects) {
                        self.reject(&mut refused.truth, entry.message.id, Reason::Failed);
                    }
                    next.push((step(who, "the broker refuses its entry for good"), refused));
                }
            }
            Relay::Trim { at, run } => {
                let mut trimmed = *state;
                trimmed.gate.trim(at, run, !self.bounds.has(Bug::TrimWithoutRun));
                trimmed.relays[which] = Relay::Idle;
                next.push((step(who, "XACK and XDEL"), trimmed));
            }
        }
        if state.left.crashes > 0 && state.relays[which] != Relay::Idle {
            let mut dead = *state;
            dead.left.crashes -= 1;
            dead.relays[which] = Relay::Idle;
            next.push((step(who, "dies"), dead));
        }
    }

    fn read_outbox(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Relay(which);
        if self.bounds.has(Bug::GroupFromNow) && !state.gate.group {
            let mut made = *state;
            Self::make_group_from_now(&mut made);
            next.push((step(who, "makes its group, which begins at the stream's end"), made));
        }
        for entry in self.delivered(&state.gate) {
            let mut read = *state;
            read.left.reads -= 1;
            self.take_entry(&mut read, entry.at);
            read.relays[which] = Relay::Publish { entry, run: state.gate.run };
            next.push((step(who, "reads an entry"), read));
        }
    }

    /// Changes Redis as a read by the relay does; only planted mistakes depend on it.
    pub(super) fn take_entry(&self, state: &mut State, at: u8) {
        if self.bounds.has(Bug::TrimBeforeAck) {
            let run = state.gate.run;
            state.gate.trim(at, run, true);
        }
        if self.bounds.has(Bug::LeftoversNotRead) {
            let entries = state.gate.outbox.as_mut_slice().iter_mut();
            entries.filter(|entry| entry.at == at).for_each(|entry| entry.passed = true);
        }
    }

    pub(super) fn make_group_from_now(state: &mut State) {
        state.gate.group = true;
        for entry in state.gate.outbox.as_mut_slice() {
            entry.passed = true;
        }
    }
}
