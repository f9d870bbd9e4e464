//! States at rest: no process is at work, and no more faults happen. From there relay, lander, keeper, consumer and
//! resolver finish what is left. Then the gate equals MySQL, every receipt has its outcome, and a client that retries
//! gets a final answer.

use coupon::{Open, TemplateState};

use super::super::{
    Attempt, Promise, Protocol, State,
    bounds::{IDS, Left, MESSAGES_MAX, SPARE},
    make_visible,
    queue::state::Outcome,
    state::{At, Cancel, Rebuilder, Resolver, Tell, Walk},
    truth::Row,
};
use crate::gate::{Meta, Request, RequestState};

/// Requests after which a client must have a final answer.
const SENDS_MAX: usize = 4;

/// Most steps of one claim, and most rounds until all is at rest.
const STEPS_MAX: usize = 64;

impl Protocol {
    /// Returns the first promise for states at rest that this state breaks.
    pub(in crate::claim) fn broken_at_rest(&self, state: &State) -> Option<Promise> {
        let messages = state.queue.topic.as_slice().len();
        let entries = state.gate.outbox.entries.as_slice().len();
        // The modelled partition is short; states whose messages would not fit are not explored.
        if !is_idle(state) || messages + entries > MESSAGES_MAX {
            return None;
        }
        if let Some(promise) = self.broken_without_mending(state) {
            return Some(promise);
        }
        let mut calm = *state;
        calm.left = Left::NONE;
        calm.servers.other = None;
        self.come_to_rest(&mut calm).or_else(|| {
            let attempts = self.bounds.attempts;
            let first = |at: &usize| !attempts[..*at].contains(&attempts[*at]);
            let mut keys = (0..attempts.len()).filter(first);
            keys.find_map(|at| Self { spare: attempts[at], ..*self }.asks_until_answered(calm))
        })
    }

    /// The keeper is needed only for changes that were lost on their way; all others have arrived without it. With holds
    /// it is needed for movements that became visible after a rebuild had read.
    fn broken_without_mending(&self, state: &State) -> Option<Promise> {
        let arrived = !self.bounds.coarse
            && !self.bounds.held
            && state.consumed == state.truth.movement
            && state.gate.inflight.is_empty()
            && !self.must_rebuild(state);
        let is_told = |meta: &Meta| arrived && !meta.halted;
        let meta = state.gate.meta.filter(|meta| is_told(meta) && !state.operator.send_lost)?;
        if meta.facts.stock != state.truth.stock && state.lied != meta.epoch {
            return Some(Promise::QuietGateIsMySqls);
        }
        let known = meta.facts.state == state.truth.state;
        (!known).then_some(Promise::QuietGateKnowsItsState)
    }

    /// Runs every process until nothing is left to do, and checks the promises that must hold then.
    fn come_to_rest(&self, state: &mut State) -> Option<Promise> {
        let mut rounds = 0;
        while self.work(state) {
            self.note(state);
            if let Some(promise) = state.broken.or_else(|| self.broken_in(state)) {
                return Some(promise);
            }
            rounds += 1;
            if rounds > STEPS_MAX {
                return Some(Promise::ComesToRest);
            }
        }
        let queue = &state.queue;
        let waits = |id: usize| queue.receipts[id] > 0 && queue.told[id] == Outcome::Processing;
        if (0..IDS).any(waits) {
            return Some(Promise::EveryReceiptEnds);
        }
        self.differs_at_rest(state)
    }

    /// One round. Returns whether anything was done.
    fn work(&self, state: &mut State) -> bool {
        let mut worked = self.empty_outbox(state);
        if let Some(hidden) = state.truth.hidden.take() {
            make_visible(state, hidden);
        }
        for _ in 0..STEPS_MAX {
            worked |= self.land_next(state, 0).is_some();
        }
        for seq in state.consumed + 1..=state.truth.movement {
            self.send_movement(state, seq);
            state.consumed = seq;
        }
        worked |= self.carry_at_once(state);
        worked |= self.send_state(state) || self.send_movements(state);
        let requests: Vec<Request> = state.gate.requests().copied().collect();
        for request in requests {
            worked |= self.resolve_at_once(state, request).is_some();
        }
        if worked {
            return true;
        }
        if state.rebuilders[0] == Rebuilder::default() {
            let wanted = self.must_rebuild(state);
            if wanted {
                self.raise(state, 0, state.truth.history);
            }
            return wanted;
        }
        self.rebuild_next(state, 0).is_some()
    }

    fn differs_at_rest(&self, state: &State) -> Option<Promise> {
        let truth = &state.truth;
        let Some(Meta { epoch, facts, halted, .. }) = state.gate.answering() else {
            let needed = !self.is_closed(state);
            return needed.then_some(Promise::QuietGateIsMySqls);
        };
        if halted || (facts.state, facts.mode) != (truth.state, truth.mode) {
            return Some(Promise::QuietGateKnowsItsState);
        }
        let user_differs = |user| {
            let entry = state.gate.entry(user);
            let numbers = entry.taken != truth.taken(self.claims(), user);
            let lapses = entry.lapses != truth.lapses[usize::from(user)].count;
            self.bounds.limit > 0 && numbers || self.bounds.lapses_allowed > 0 && lapses
        };
        // No process may notice missing numbers before a landing meets one.
        let numbers_differ = self.bounds.users().any(user_differs) && epoch != state.lied;
        let stands = state.gate.requests().any(|r| r.state != RequestState::Landed);
        let differs = facts.stock != truth.stock || numbers_differ || stands;
        differs.then_some(Promise::QuietGateIsMySqls)
    }

    fn asks_until_answered(&self, mut state: State) -> Option<Promise> {
        for _ in 0..SENDS_MAX {
            if state.queue.topic.as_slice().len() >= MESSAGES_MAX {
                return None;
            }
            forget_spare(&mut state);
            self.send_spare(&mut state);
            let at = state.walks[SPARE].at;
            let promise = state.broken.or_else(|| self.come_to_rest(&mut state));
            let key = self.spare.key;
            let landed = state.truth.landed_under(self.claims(), key).is_some();
            if promise.is_some() || landed || at == At::Answered {
                return promise;
            }
            if at == At::Refused {
                let promise = Promise::RefusedOnlyForATrueReason;
                return (!self.is_refused_truly(&state)).then_some(promise);
            }
        }
        Some(Promise::FinalAnswerInTheEnd)
    }

    fn send_spare(&self, state: &mut State) {
        let mut next = Vec::new();
        state.walks[SPARE].at = At::Gate(false);
        for _ in 0..STEPS_MAX {
            self.walk(state, SPARE as u8, &mut next);
            // The first step is always the successful one.
            let Some((_, first)) = next.drain(..).next() else { return };
            *state = first;
            self.note(state);
            if state.broken.is_some() {
                return;
            }
        }
    }

    fn is_refused_truly(&self, state: &State) -> bool {
        let truth = &state.truth;
        let Attempt { user, quantity, .. } = self.spare;
        let taken = truth.taken(self.claims(), user).count();
        let over = self.bounds.limit > 0 && taken + quantity > self.bounds.limit;
        let allowed = self.bounds.lapses_allowed;
        let banned = allowed > 0 && truth.lapses[usize::from(user)].count >= allowed;
        let open = truth.open == Open::All && truth.state == TemplateState::Published;
        over || banned || !open || truth.stock < i16::from(quantity)
    }
}

/// Returns whether no process is at work; there may be work to do.
fn is_idle(state: &State) -> bool {
    let waiting = |cancel: &Cancel| !matches!(cancel, Cancel::Unsent | Cancel::Done);
    state.packet.is_none()
        && state.check.is_none()
        && state.truth.hidden.is_none()
        && state.operator.tell == Tell::Nothing
        && state.halt.is_idle()
        && state.walks.iter().all(|walk| !walk.is_under_way())
        && state.resolvers.iter().all(|resolver| *resolver == Resolver::Idle)
        && !state.is_rebuilding()
        && state.queue.is_idle()
        && state.holds.lapsers.iter().all(|read| read.is_empty())
        && !state.holds.cancels.iter().any(waiting)
}

/// In the code each request has an id of its own. Here all of them share one slot, which is cleared first.
fn forget_spare(state: &mut State) {
    if state.truth.claims[SPARE] == Row::Void {
        state.truth.claims[SPARE] = Row::Absent;
    }
    for fence in &mut state.truth.fences_on_keys {
        if usize::from(*fence) == SPARE + 1 {
            *fence = 0;
        }
    }
    state.queue.receipts[SPARE] = 0;
    state.queue.told[SPARE] = Outcome::Processing;
    state.walks[SPARE] = Walk::default();
}
