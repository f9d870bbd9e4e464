//! The operator's changes: first in MySQL, then at once in the gate.

use super::{
    Change, LateKind, Next, Protocol, State, Who, dies,
    state::{Packet, Tell},
    step,
    truth::{Movement, Transaction},
};
use crate::Bug;

impl Protocol {
    pub(super) fn operate(&self, state: &State, next: &mut Next) {
        if state.operator.tell != Tell::Nothing {
            self.send_last_change(state, next);
            return;
        }
        let Some(change) = self.bounds.changes.get(usize::from(state.operator.committed)) else {
            return;
        };
        // The change waits for the stock row.
        if state.truth.hidden.is_some() {
            return;
        }
        if self.bounds.halts && state.operator.looked.is_none() {
            next.push((
                step(Who::Operator, "looks for a pause at the gate"),
                self.look_for_halt(state),
            ));
            return;
        }
        let mut after = *state;
        after.operator.committed += 1;
        let tell = self.change(&mut after, *change);
        if *change == Change::Resume && tell == Tell::State {
            after.halt.resumed(state.operator.looked);
        }
        after.operator.looked = None;
        if !self.bounds.coarse {
            after.operator.tell = tell;
        }
        let what = match change {
            Change::Pause | Change::PauseReject => "pauses in MySQL",
            Change::Resume => "resumes in MySQL",
            Change::End | Change::EndReject => "ends in MySQL",
            Change::Move(_) => "moves the stock in MySQL",
            Change::Validity => "changes the validity in MySQL",
            Change::Mode(_) => "changes the mode in MySQL",
            Change::Lift(_) => "lifts a ban in MySQL",
        };
        next.push((step(Who::Operator, what), after));
    }

    /// Commits a change, and returns what must be sent to the gate.
    fn change(&self, state: &mut State, change: Change) -> Tell {
        let seq = state.truth.movement + 1;
        let transaction = match change {
            Change::Move(delta) => state.truth.moved(delta),
            Change::Lift(user) if self.has(Bug::LiftWithoutSeq) => {
                state.truth.lapses[usize::from(user)].count = 0;
                if let Some(entry) = &mut state.gate.users[usize::from(user)] {
                    entry.lapses = 0;
                }
                None
            }
            Change::Lift(user) => Some(Transaction::of(Movement::lift(user))),
            // A change of validity is not sent to the gate; the keeper updates the version there.
            Change::Validity => {
                state.truth.change(change);
                None
            }
            Change::Pause
            | Change::PauseReject
            | Change::Resume
            | Change::End
            | Change::EndReject
            | Change::Mode(_) => {
                return if state.truth.change(change) { Tell::State } else { Tell::Nothing };
            }
        };
        let Some(transaction) = transaction else { return Tell::Nothing };
        self.commit(state, transaction);
        Tell::Movement(seq)
    }

    /// Sends the last change to the gate. An absent gate reads MySQL when it is rebuilt.
    fn send_last_change(&self, state: &State, next: &mut Next) {
        let who = Who::Operator;
        let mut after = *state;
        after.operator.tell = Tell::Nothing;
        dies(&after, who, next, |dead| {
            dead.operator.send_lost |= state.operator.tell == Tell::State;
        });
        match state.operator.tell {
            Tell::Movement(seq) if seq <= state.truth.movement => {
                self.tell(state, after, who, seq, next);
            }
            Tell::Movement(_) | Tell::Nothing => {}
            Tell::State => {
                let truth = state.truth;
                let epoch = state.gate.epoch();
                if self.may_be_late(state, LateKind::SetState) {
                    let packet =
                        Packet::SetState { state: truth.state, version: truth.version, epoch };
                    next.push((
                        step(who, "set_state.lua is late"),
                        Self::sent_late(&after, packet),
                    ));
                }
                after.gate.set_state(self.rules(), epoch, truth.version, truth.state, truth.mode);
                next.push((step(who, "set_state.lua"), after));
            }
        }
    }
}
