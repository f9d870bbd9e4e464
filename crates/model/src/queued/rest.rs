//! States at rest: no process is at work, and no more faults happen. From there relay, lander, keeper and resolver
//! finish what is left. Then every receipt has its outcome, and a client that retries gets a final answer.

use super::{
    Promise, Protocol, State,
    bounds::{IDS, Left, MESSAGES_MAX, SPARE},
    gate::Request,
    state::{At, Lander, Looker, Rebuilder, Relay, Resolver, Walk},
    truth::{Open, Outcome, Row},
};
use crate::Bug;
use coupon::TemplateState;

/// Requests after which a client must have a final answer.
const SENDS_MAX: usize = 4;

/// Most steps of one request, and most rounds until all is at rest.
const STEPS_MAX: usize = 64;

impl Protocol {
    /// Returns the first promise for states at rest that this state breaks.
    pub(super) fn broken_at_rest(&self, state: &State) -> Option<Promise> {
        let idle = state.walks.iter().all(|walk| !walk.is_under_way())
            && state.relays.iter().all(|relay| *relay == Relay::Idle)
            && state.landers.iter().all(|lander| *lander == Lander::Idle)
            && state.rebuilders.iter().all(|rebuilder| *rebuilder == Rebuilder::default())
            && state.resolver == Resolver::Idle
            && state.looker == Looker::Idle;
        // The modelled partition is short; states whose messages would not fit are not explored.
        if !idle || state.topic.as_slice().len() + state.gate.outbox.as_slice().len() > MESSAGES_MAX
        {
            return None;
        }
        let mut calm = *state;
        calm.left = Left::NONE;
        self.come_to_rest(&mut calm).or_else(|| {
            let attempts = self.bounds.attempts;
            let first = |at: &usize| !attempts[..*at].contains(&attempts[*at]);
            let mut keys = (0..attempts.len()).filter(first);
            keys.find_map(|at| Self { spare: attempts[at], ..*self }.asks_until_answered(calm))
        })
    }

    /// Runs every process until nothing is left to do, and checks the promises that must hold then.
    fn come_to_rest(&self, state: &mut State) -> Option<Promise> {
        let mut rounds = 0;
        while self.work(state) {
            self.tell(state);
            if let Some(promise) = state.broken.or_else(|| self.broken_in(state)) {
                return Some(promise);
            }
            rounds += 1;
            if rounds > STEPS_MAX {
                return Some(Promise::ComesToRest);
            }
        }
        let waits = |id: usize| state.receipts[id] > 0 && state.told[id] == Outcome::Processing;
        if (0..IDS).any(waits) {
            return Some(Promise::EveryReceiptEnds);
        }
        self.differs_at_rest(state).then_some(Promise::QuietGateIsMySqls)
    }

    /// One round. Returns whether anything was done.
    fn work(&self, state: &mut State) -> bool {
        let mut worked = self.empty_outbox(state);
        for _ in 0..STEPS_MAX {
            worked |= self.land_next(state, 0).is_some();
        }
        worked |= Self::send_state(state) || Self::send_movements(state);
        for id in 0..IDS as u8 {
            worked |= self.resolve_one(state, id).is_some();
        }
        if worked {
            return true;
        }
        if state.rebuilders[0] == Rebuilder::default() {
            let wanted = self.wants_gate(state);
            if wanted {
                self.raise(state, 0);
            }
            return wanted;
        }
        self.rebuild_next(state, 0).is_some()
    }

    fn empty_outbox(&self, state: &mut State) -> bool {
        if self.bounds.has(Bug::GroupFromNow) && !state.gate.group {
            Self::make_group_from_now(state);
        }
        let mut worked = false;
        for entry in self.delivered(&state.gate) {
            if state.publish(entry.message) {
                let run = state.gate.run;
                state.gate.trim(entry.at, run, true);
                worked = true;
            }
        }
        worked
    }

    /// Returns whether the keeper requests a new epoch: the gate is absent, behind or wrong; it holds a queued request
    /// that is in neither outbox nor topic; or the template has ended and its queue is not closed.
    fn wants_gate(&self, state: &State) -> bool {
        if self.is_closed(state) {
            return false;
        }
        let Some(meta) = state.gate.answering() else { return true };
        let orphan = state.gate.requests.iter().any(|r| matches!(r, Request::Queued(_)))
            && state.gate.outbox.as_slice().is_empty()
            && !self.bounds.has(Bug::ResolverIgnoresQueued);
        let wrong = [state.wrong, state.lied].contains(&meta.epoch);
        let ended = state.truth.state == TemplateState::Ended;
        orphan || wrong || ended || meta.epoch != state.truth.epoch
    }

    fn differs_at_rest(&self, state: &State) -> bool {
        let Some(meta) = state.gate.answering() else { return !self.is_closed(state) };
        let stands = |r: &Request| matches!(r, Request::Pending(_) | Request::Queued(_));
        let users = (0..).zip(&state.gate.users);
        let mut numbers =
            users.map(|(user, entry)| entry.taken == self.landed_numbers(&state.truth, user));
        meta.stock != state.truth.stock
            || meta.state != state.truth.state
            || meta.mode != state.truth.mode
            || state.gate.requests.iter().any(stands)
            || !numbers.all(|same| same)
    }

    fn asks_until_answered(&self, mut state: State) -> Option<Promise> {
        for _ in 0..SENDS_MAX {
            if state.topic.as_slice().len() >= MESSAGES_MAX {
                return None;
            }
            self.forget_spare(&mut state);
            self.send_spare(&mut state);
            let at = state.walks[SPARE].at;
            let promise = state.broken.or_else(|| self.come_to_rest(&mut state));
            if promise.is_some() || matches!(at, At::Accepted | At::Answered) {
                return promise;
            }
            if at == At::Refused {
                let promise = Promise::RefusedOnlyForATrueReason;
                return (!self.is_refused_truly(&state)).then_some(promise);
            }
        }
        Some(Promise::FinalAnswerInTheEnd)
    }

    /// In the code each request has an id of its own. Here all of them share one slot, which is cleared first.
    fn forget_spare(&self, state: &mut State) {
        if state.truth.rows[SPARE] == Row::Void {
            state.truth.rows[SPARE] = Row::Absent;
        }
        state.receipts[SPARE] = 0;
        state.told[SPARE] = Outcome::Processing;
        state.walks[SPARE] = Walk::default();
    }

    fn send_spare(&self, state: &mut State) {
        let mut next = Vec::new();
        for _ in 0..STEPS_MAX {
            self.walk(state, SPARE as u8, &mut next);
            // The first step is always the successful one.
            let Some((_, first)) = next.drain(..).next() else { return };
            *state = first;
            self.tell(state);
        }
    }

    fn is_refused_truly(&self, state: &State) -> bool {
        let truth = &state.truth;
        let held = self.landed_numbers(truth, self.spare.user).count();
        held >= self.bounds.limit || truth.open != Open::All || truth.stock < 1
    }
}
