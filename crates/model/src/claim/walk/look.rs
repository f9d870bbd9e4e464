//! Lookups of a claim's key in MySQL.

use super::{
    super::{Next, Protocol, State, state::At},
    claim,
};

impl Protocol {
    fn is_answered(&self, state: &State, id: u8) -> bool {
        state.truth.answered_under(self.claims(), self.attempt(id).key).is_some()
    }

    /// A refusal is final only if the key has no answer. A claim that returned its coupons has one.
    pub(super) fn look_up(&self, state: &State, id: u8, next: &mut Next) {
        let mut looked = *state;
        let what = if self.is_answered(state, id) {
            looked.answer(id);
            "the key has an answer: that one"
        } else {
            self.refuse(&mut looked, id);
            "the key has no answer: 409"
        };
        next.push((claim(id, what), looked));
    }

    /// The answer to a key that was rejected, or that landed before the gate was rebuilt, is in MySQL. Nothing is taken
    /// for such a key.
    pub(super) fn look_first(&self, state: &State, id: u8, next: &mut Next) {
        let mut looked = *state;
        let what = if self.is_answered(state, id) {
            looked.answer(id);
            "the key has an answer: that one"
        } else {
            looked.walk_mut(id).at = At::Gate(true);
            "the key has no answer"
        };
        next.push((claim(id, what), looked));
    }

    pub(super) fn look_again(&self, state: &State, id: u8, next: &mut Next) {
        let mut looked = *state;
        let what = if self.is_answered(state, id) {
            looked.answer(id);
            "the key has an answer: that one, no 202"
        } else {
            self.go_on_queued(&mut looked, id);
            "the key has no answer still"
        };
        next.push((claim(id, what), looked));
    }
}
