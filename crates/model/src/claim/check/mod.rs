//! Looks for promises that a state breaks.

mod display;
mod gate;
mod rest;
mod truth;

use super::{Promise, Protocol, State};

impl Protocol {
    /// Returns the first promise for every state that this state breaks.
    pub(super) fn broken_in(&self, state: &State) -> Option<Promise> {
        self.broken_truth(&state.truth)
            .or_else(|| self.broken_payment(state))
            .or_else(|| self.broken_202(state))
            .or_else(|| self.broken_gate(state))
            .or_else(|| self.broken_refusal(state))
    }
}
