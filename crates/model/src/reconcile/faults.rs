//! What goes wrong: a gate whose contents become wrong, a stock that leaves its ledger, a Redis that goes back in time.

use super::{Next, Reconcile, Request, State, step};
use crate::gate::Numbers;

const REDIS: &str = "redis";

impl Reconcile {
    pub(super) fn strike(&self, state: &State, next: &mut Next) {
        self.lie(state, next);
        self.drift(state, next);
        let mut after = *state;
        match state.copy {
            _ if state.left.rewinds == 0 => {}
            Some(copy) => {
                after.left.rewinds -= 1;
                after.run += 1;
                after.gate = copy;
                after.copy = None;
                next.push((step(REDIS, 0, "goes back in time"), after));
            }
            None => {
                after.copy = Some(state.gate);
                next.push((step(REDIS, 0, "writes its file"), after));
            }
        }
    }

    fn lie(&self, state: &State, next: &mut Next) {
        if state.left.lies == 0 || !state.is_open() {
            return;
        }
        let gate = state.gate;
        let mut lied = *state;
        lied.left.lies -= 1;
        lied.faulty = gate.epoch;
        for number in 1..=self.bounds.limit {
            let one = Numbers::from_iter([number]);
            let mut after = lied;
            if !gate.taken.meets(one) {
                after.gate.taken = gate.taken.with(one);
                next.push((step(REDIS, 0, "the gate takes a number that nobody has"), after));
            } else if state.truth.numbers.meets(one) && !state.unsettled_numbers().meets(one) {
                after.gate.taken = gate.taken.without(one);
                next.push((step(REDIS, 0, "the gate forgets a number"), after));
            }
        }
        for delta in [1, -1] {
            let mut after = lied;
            after.gate.stock += delta;
            if after.gate.stock >= 0 {
                next.push((step(REDIS, 0, "the gate's stock becomes another"), after));
            }
        }
        for (which, request) in gate.requests.into_iter().enumerate() {
            if let Some(request) = request.filter(|request| request.listed) {
                let mut after = lied;
                after.gate.requests[which] = Some(Request { listed: false, ..request });
                next.push((step(REDIS, which, "the gate forgets what is in flight"), after));
            }
        }
    }

    fn drift(&self, state: &State, next: &mut Next) {
        if state.left.drifts == 0 || state.truth.hidden.is_some() {
            return;
        }
        for delta in [1, -1] {
            let mut after = *state;
            after.left.drifts -= 1;
            after.faulty = state.truth.epoch;
            after.truth.stock += delta;
            if after.truth.stock >= 0 {
                next.push((step("mysql", 0, "the stock becomes another"), after));
            }
        }
    }
}
