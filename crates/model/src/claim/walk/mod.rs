//! One claim, from the gate to its answer: the walk of `landing`.

mod accept;
mod ask;
mod end;
mod land;
mod look;

use super::{
    Next, Protocol, State, Step, Who, dies,
    state::{At, Walk},
    step,
};

use crate::Bug;

/// Most admissions of one claim; the constant of `landing`.
const ADMISSIONS_MAX: u8 = 2;

impl Protocol {
    /// The next steps of one claim; the successful one first.
    pub(super) fn walk(&self, state: &State, id: u8, next: &mut Next) {
        self.walk_on(state, id, next);
        let calls = matches!(state.walk(id).at, At::Unsent | At::Gate(_) | At::Confirm);
        let Some(old) = state.copy.filter(|_| calls && self.has_two_masters(state)) else { return };
        let mut there = *state;
        there.gate = old;
        there.copy = Some(state.gate);
        let first = next.len();
        self.walk_on(&there, id, next);
        for (_, after) in &mut next[first..] {
            after.copy = Some(after.gate);
            after.gate = state.gate;
        }
    }

    /// Only with [`Bug::OldMasterAnswers`]: returns whether `copy` is a master whose replica was promoted.
    fn has_two_masters(&self, state: &State) -> bool {
        self.has(Bug::OldMasterAnswers) && state.left.rewinds == 0
    }

    fn walk_on(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walk(id);
        match walk.at {
            At::Unsent => self.send(state, id, next),
            At::Gate(looked) => self.ask_in_mode(state, id, looked, next),
            At::Lookup => self.look_up(state, id, next),
            At::LookFirst => self.look_first(state, id, next),
            At::LookAgain => self.look_again(state, id, next),
            At::Publish => self.publish(state, id, next),
            At::Confirm => self.confirm(state, id, next),
            At::Wait => self.wait(state, id, next),
            At::Land => self.land(state, id, next),
            At::Reread { statement, own_reason } => {
                self.reread(state, id, statement, own_reason, next);
            }
            At::Fence(ending) => {
                let (fenced, what) = self.fenced(state, id, ending);
                next.push((claim(id, what), fenced));
            }
            At::Release(ending) => self.release(state, id, ending, next),
            At::Settle => self.settle(state, id, next),
            At::HeldBack => self.answer_held_back(state, id, next),
            At::Answered | At::Refused | At::Done => {}
        }
        if walk.is_under_way() {
            dies(state, Who::Claim(id), next, |dead| dead.end(id, At::Done));
        }
    }

    /// Requests with the same key are interchangeable, so they are sent in order.
    fn send(&self, state: &State, id: u8, next: &mut Next) {
        let key = self.attempt(id).key;
        let mut earlier = (0..id).filter(|earlier| self.attempt(*earlier).key == key);
        let is_probe = usize::from(id) == super::SPARE;
        if !is_probe && earlier.any(|earlier| state.walk(earlier).at == At::Unsent) {
            return;
        }
        if self.bounds.pauses {
            next.push((claim(id, "the client sends it"), state.with_walk(id, At::Gate(false))));
        } else {
            self.ask_in_mode(state, id, false, next);
        }
    }
}

impl State {
    /// Passes the gate once more under the same id, if allowed.
    fn admit_again(&mut self, id: u8, known: u8) {
        let walk = self.walk_mut(id);
        *walk = if walk.admissions < ADMISSIONS_MAX {
            let known = walk.known.max(known);
            Walk { at: At::Gate(false), known, admissions: walk.admissions, ..Walk::default() }
        } else {
            Walk { at: At::Done, ..Walk::default() }
        };
    }
}

fn claim(id: u8, what: &'static str) -> Step {
    step(Who::Claim(id), what)
}
