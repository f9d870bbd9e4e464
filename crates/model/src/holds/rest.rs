//! States at rest: no process is at work, and no more faults happen. From there keeper, consumer and resolver repair
//! what is left, and a client that retries gets a final answer.

use super::{
    Promise, Protocol, State,
    bounds::{Left, SPARE},
    state::{At, Cancel, Resolver, Walk},
    truth::{Fence, Row},
};

/// Requests after which a client must have a final answer.
const SENDS_MAX: usize = 4;

/// Most steps of one walk; without faults it passes the gate at most twice.
const STEPS_MAX: usize = 24;

impl Protocol {
    /// Returns whether no process is at work; there may be work to do.
    pub(super) fn is_idle(&self, state: &State) -> bool {
        let waiting = |cancel: &Cancel| !matches!(cancel, Cancel::Unsent | Cancel::Done);
        state.packet.is_none()
            && state.look.is_none()
            && state.truth.hidden.is_none()
            && state.operator.tell == 0
            && state.lapsers.iter().all(|read| read.is_empty())
            && !state.is_rebuilding()
            && state.walks.iter().all(|walk| !walk.is_under_way())
            && !state.cancels.iter().any(waiting)
            && state.resolver == Resolver::Idle
    }

    /// Returns the broken promise if a client with any of the keys may retry forever.
    pub(super) fn unanswered(&self, state: &State) -> Option<Promise> {
        let attempts = self.bounds.attempts;
        attempts.iter().enumerate().find_map(|(at, attempt)| {
            let again = attempts[..at].contains(attempt);
            if again {
                return None;
            }
            let mut calm = *state;
            calm.left = Left::NONE;
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

    /// In the code each request has an id of its own. Here all of them share one slot, which is cleared first.
    fn forget_spare(&self, state: &mut State) {
        let row = &mut state.truth.claims[SPARE];
        if *row == Row::Void {
            *row = Row::Absent;
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
            // The first step is always the successful one.
            let Some((_, first)) = next.drain(..).next() else { return };
            *state = first;
        }
    }

    fn is_refused_truly(&self, state: &State) -> bool {
        let truth = &state.truth;
        let user = self.spare.user;
        let quantity = self.spare.quantity;
        let taken = truth.taken(self.claims(), user).count();
        let over = self.bounds.limit > 0 && taken + quantity > self.bounds.limit;
        let allowed = self.bounds.lapses_allowed;
        let banned = allowed > 0 && truth.lapses[usize::from(user)].count >= allowed;
        over || banned || truth.stock < i16::from(quantity)
    }

    /// Runs one pass each of the keeper, the consumer and the resolver.
    pub(super) fn come_to_rest(&self, state: &mut State) {
        self.keep(state);
        for seq in state.consumed + 1..=state.truth.movement {
            self.send_movement(state, seq);
            state.consumed = seq;
        }
        let epoch = state.gate_epoch();
        for id in state.gate.inflight.iter() {
            let user = self.attempt(id).user;
            match state.truth.fence(id) {
                Fence::Landed => state.gate.settle(&self.bounds, epoch, user, id),
                Fence::Stands => state.gate.release(epoch, user, id),
            }
        }
    }
}
