//! At rest: nobody is at work, and no fault strikes any more. Then keeper, consumer and resolvers mend
//! what is left, and a client that asks again gets a final answer.

use super::{
    Promise, Protocol, State,
    bounds::SPARE,
    state::{At, Left, Resolver, Walk},
    truth::{Fence, Row},
};
/// How often a client asks before it may expect a final answer.
const SENDS_MAX: usize = 4;

/// Steps of one walk at most; without faults it passes the gate twice.
const STEPS_MAX: usize = 24;

impl Protocol {
    /// Whether nobody is at work; there may be things to do.
    pub(super) fn is_idle(&self, state: &State) -> bool {
        state.packet.is_none()
            && !state.operator.tells
            && !state.is_rebuilding()
            && state.walks.iter().all(|walk| !walk.is_under_way())
            && state.resolvers.iter().all(|resolver| *resolver == Resolver::Idle)
    }

    /// Whether a client may ask for ever, whichever key it has.
    pub(super) fn unanswered(&self, state: &State) -> Option<Promise> {
        let attempts = self.bounds.attempts;
        attempts.iter().enumerate().find_map(|(at, attempt)| {
            let again = attempts[..at].contains(attempt);
            if again {
                return None;
            }
            let mut calm = *state;
            calm.left = Left::default();
            Self { spare: *attempt, ..*self }.asks_until_answered(calm)
        })
    }

    fn asks_until_answered(&self, mut state: State) -> Option<Promise> {
        for _ in 0..SENDS_MAX {
            self.come_to_rest(&mut state);
            self.forget_spare(&mut state);
            self.send_spare(&mut state);
            if state.broken.is_some() {
                return state.broken;
            }
            if state.truth.landed_under(self.claims(), self.spare.key).is_some() {
                return None;
            }
            if state.walks[SPARE].at == At::Refused {
                let promise = Promise::RefusedOnlyForATrueReason;
                return (!self.is_refused_truly(&state)).then_some(promise);
            }
        }
        Some(Promise::FinalAnswerInTheEnd)
    }

    /// Each request has an id of its own; here one slot serves them all.
    fn forget_spare(&self, state: &mut State) {
        let row = &mut state.truth.claims[SPARE];
        if *row == Row::Void {
            *row = Row::Absent;
        }
        for fence in &mut state.truth.fences_on_keys {
            if usize::from(*fence) == SPARE + 1 {
                *fence = 0;
            }
        }
        state.walks[SPARE] = Walk { at: At::Gate, ..Walk::default() };
    }

    fn send_spare(&self, state: &mut State) {
        let mut next = Vec::new();
        for _ in 0..STEPS_MAX {
            if !state.walks[SPARE].is_under_way() || state.broken.is_some() {
                return;
            }
            self.walk(state, SPARE as u8, &mut next);
            // What goes well comes first.
            let Some((_, first)) = next.drain(..).next() else { return };
            *state = first;
        }
    }

    fn is_refused_truly(&self, state: &State) -> bool {
        let truth = &state.truth;
        let quantity = self.spare.quantity;
        let taken = truth.taken(self.claims(), self.spare.user).count();
        let over = self.bounds.limit > 0 && taken + quantity > self.bounds.limit;
        over || !truth.is_open() || truth.stock < i16::from(quantity)
    }

    /// One look of the keeper, the consumer and the resolver each.
    fn come_to_rest(&self, state: &mut State) {
        self.keep(state);
        for seq in state.consumed + 1..=state.truth.movement {
            self.tell_movement(state, seq);
            state.consumed = seq;
        }
        let epoch = state.gate.meta.map_or(0, |meta| meta.epoch);
        for id in state.gate.inflight.iter() {
            let user = self.attempt(id).user;
            match self.fence_or_select(state, id) {
                Fence::Landed => drop(state.gate.settle(self.rules(), epoch, &[(user, id)])),
                Fence::Stands => drop(state.gate.release(self.rules(), epoch, user, id)),
            }
        }
    }
}
