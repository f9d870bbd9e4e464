//! The reconcilers' look at gate and MySQL: the gate (A), MySQL (B), the gate again (C), and what came back between
//! them. A gate that is found wrong is marked, under the epoch that was looked at.

use super::{
    Look, Next, Promise, Reconcile, State,
    bounds::PROCESSES_MAX,
    is_first_idle,
    judge::{Found, GateRead, TruthRead},
    step,
};
use crate::Bug;

const RECONCILER: &str = "reconciler";

impl Reconcile {
    pub(super) fn look(&self, state: &State, next: &mut Next) {
        for which in 0..self.bounds.processes.min(PROCESSES_MAX) {
            match state.looks[which] {
                Look::Idle if is_first_idle(&state.looks, which, &Look::Idle) => {
                    self.begin_look(state, which, next);
                }
                Look::Idle => {}
                Look::Truth(truth) => {
                    let gate = self.read_gate(state);
                    let read = gate.map_or(Look::Idle, |gate| Look::Both(gate, truth));
                    push(state, which, read, "reads the gate", next);
                }
                Look::Gate(gate) => {
                    let truth = TruthRead::of(state);
                    let same = truth.epoch == gate.epoch;
                    let read = if same { Look::Both(gate, truth) } else { Look::Idle };
                    push(state, which, read, "reads MySQL", next);
                }
                Look::Both(gate, truth) => self.end_look(state, which, &gate, &truth, next),
                Look::Mark(epoch) => {
                    let mut after = *state;
                    after.looks[which] = Look::Idle;
                    after.gate.marked |= state.gate.epoch == epoch && state.gate.run == state.run;
                    next.push((step(RECONCILER, which, "mark_unreadable"), after));
                }
            }
        }
    }

    fn begin_look(&self, state: &State, which: usize, next: &mut Next) {
        if state.left.looks == 0 {
            return;
        }
        let mut begun = *state;
        begun.left.looks -= 1;
        if self.has(Bug::LookReadsMySqlFirst) {
            push(&begun, which, Look::Truth(TruthRead::of(state)), "reads MySQL", next);
        } else if let Some(gate) = self.read_gate(state) {
            push(&begun, which, Look::Gate(gate), "reads the gate", next);
        }
    }

    /// Reads the gate again and judges. Every finding must be about an epoch in which something was made wrong.
    fn end_look(
        &self,
        state: &State,
        which: usize,
        before: &GateRead,
        truth: &TruthRead,
        next: &mut Next,
    ) {
        let once = self.has(Bug::LookReadsGateOnce);
        let again = if once { Some(*before) } else { self.read_gate(state) };
        let found = again.map(|again| self.judge(state, before, truth, &again)).unwrap_or_default();
        let mut after = *state;
        after.looks[which] = Look::Idle;
        if found.any() && state.faulty != before.epoch {
            after.broken = Some(Promise::NoFalseFinding);
        }
        // Requests are ended by their owners.
        if (Found { unlisted: false, ..found }).any() {
            after.looks[which] = Look::Mark(before.epoch);
        }
        let what = if found.any() {
            "reads the gate again: a finding"
        } else {
            "reads the gate again: nothing"
        };
        next.push((step(RECONCILER, which, what), after));
    }
}

fn push(state: &State, which: usize, look: Look, what: &'static str, next: &mut Next) {
    let mut after = *state;
    after.looks[which] = look;
    next.push((step(RECONCILER, which, what), after));
}
