//! One claim from the gate to its answer: the walk and the lander of `landing`.

use coupon::{Decision, TemplateState};

use super::{
    LateKind, NOW, Next, Promise, Protocol, State, Step, Who,
    state::{At, Ending, Packet, Seen, Walk},
    truth::{Fence, Landing},
};
use crate::{
    Bug,
    gate::{RequestState, Verdict},
    reread::{Reread, Stock, decide_direct},
};

/// Most admissions of one claim; the constant of `landing`.
const ADMISSIONS_MAX: u8 = 2;

impl Protocol {
    pub(super) fn walk(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walks[usize::from(id)];
        match walk.at {
            At::Unsent => self.send(state, id, next),
            At::Gate => self.ask_gate(state, id, next),
            At::Lookup => self.look_up(state, id, next),
            At::Land => self.land(state, id, next),
            At::Reread(_) => self.reread(state, id, next),
            At::Fence(ending) => self.fence(state, id, ending, next),
            At::Release(ending) => self.release(state, id, ending, next),
            At::Settle => self.settle(state, id, next),
            At::Refused | At::Done => {}
        }
        if walk.is_under_way() && state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            died.end(id, At::Done);
            next.push((claim(id, "its process dies"), died));
        }
    }

    /// Requests with the same key are interchangeable, so they are sent in order.
    fn send(&self, state: &State, id: u8, next: &mut Next) {
        let key = self.attempt(id).key;
        let earlier = (0..id).filter(|earlier| self.attempt(*earlier).key == key);
        if earlier.into_iter().all(|earlier| state.walks[usize::from(earlier)].at != At::Unsent) {
            next.push((claim(id, "the client sends it"), state.with_walk(id, At::Gate)));
        }
    }

    /// If the gate has a later epoch than the process, the process adopts it and calls again. Here both calls are one
    /// step.
    fn ask_gate(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walks[usize::from(id)];
        let epoch = walk.known.max(state.gate.meta.map_or(0, |meta| meta.epoch));
        let mut asked = *state;
        let verdict = asked.gate.claim(self.rules(), epoch, NOW, self.claim(id));
        let lost = asked;
        let mut admit = |numbers| {
            let admissions = walk.admissions + 1;
            let at = At::Land;
            asked.walks[usize::from(id)] = Walk { at, epoch, numbers, admissions, ..walk };
        };
        let what = match verdict {
            Verdict::Admitted { numbers, .. } => {
                admit(numbers);
                "claim.lua: ADMITTED"
            }
            Verdict::Replay { id: mine, state: RequestState::Pending, numbers } if mine == id => {
                admit(numbers);
                "claim.lua: REPLAY of its own admission"
            }
            // 201 if the claim has landed in MySQL, otherwise 409 `REQUEST_IN_PROGRESS` or 503: no definite refusal.
            Verdict::Replay { .. } => {
                asked.end(id, At::Done);
                "claim.lua: REPLAY of another admission; MySQL answers"
            }
            Verdict::KeyReused => {
                asked.end(id, At::Done);
                "claim.lua: KEY_REUSED, 422"
            }
            // An ended template may have no gate any more; then the key is looked up in MySQL.
            Verdict::NotLoaded
                if state.truth.state == TemplateState::Ended
                    && !self.bounds.has(Bug::EndedWithoutGateUnanswered) =>
            {
                asked.walks[usize::from(id)] = Walk::ended(At::Lookup);
                "claim.lua: not loaded, and its template has ended"
            }
            Verdict::NotLoaded | Verdict::OtherEpoch(_) => {
                asked.end(id, At::Done);
                "claim.lua: not loaded, or behind, 503"
            }
            // 201 if the key has landed in MySQL, otherwise 503; the next request has another id.
            Verdict::TooOld => {
                asked.end(id, At::Done);
                "claim.lua: TOO_OLD; MySQL answers, or 503"
            }
            Verdict::Refused { look_in_mysql: true, .. } => {
                asked.walks[usize::from(id)] = Walk::ended(At::Lookup);
                "claim.lua refuses; not final"
            }
            Verdict::Refused { look_in_mysql: false, .. } => {
                self.refuse(&mut asked, id);
                "claim.lua refuses, 409"
            }
        };
        next.push((claim(id, what), asked));
        if matches!(verdict, Verdict::Admitted { .. }) {
            next.push((claim(id, "claim.lua: ADMITTED, the answer is lost; asks again"), lost));
        }
        if self.may_be_late(state, LateKind::Claim) {
            let late = Self::sent_late(state, Packet::Claim { id, epoch });
            next.push((claim(id, "claim.lua is late; asks again"), late));
        }
    }

    /// A refusal is final only if the key has not landed.
    fn look_up(&self, state: &State, id: u8, next: &mut Next) {
        let mut looked = *state;
        if state.truth.landed_under(self.claims(), self.attempt(id).key).is_some() {
            looked.end(id, At::Done);
            next.push((claim(id, "the key has landed: the stored answer"), looked));
        } else {
            self.refuse(&mut looked, id);
            next.push((claim(id, "the key has not landed: 409"), looked));
        }
    }

    fn land(&self, state: &State, id: u8, next: &mut Next) {
        let Walk { epoch, numbers, terms, over, .. } = state.walks[usize::from(id)];
        let landing = Landing { id, epoch, numbers, terms, over };
        let mut landed = *state;
        if self.landing(&mut landed, landing) {
            next.push((claim(id, "lands: 201"), landed.with_walk(id, At::Settle)));
            next.push((claim(id, "lands, the answer is lost; runs again"), landed));
        } else {
            let rolled_back = state.with_walk(id, At::Reread(0));
            next.push((claim(id, "is rolled back"), rolled_back));
        }
        if self.may_be_late(state, LateKind::Landing) {
            let late = Self::sent_late(state, Packet::Landing(landing));
            next.push((claim(id, "its landing is late; runs again"), late));
        }
    }

    /// The transaction of a landing. Any process may send it, at any time.
    pub(super) fn landing(&self, state: &mut State, landing: Landing) -> bool {
        let landed = state.truth.land(self.claims(), landing, self.bounds.bug);
        if landed && landing.terms < state.truth.terms {
            state.broken = Some(Promise::LandsUnderTheLastValidity);
        }
        if landed && state.walks[usize::from(landing.id)].at == At::Refused {
            state.broken = Some(Promise::NothingLandsAfterItsRefusal);
        }
        landed
    }

    /// Three statements that may see different moments; the last one decides.
    fn reread(&self, state: &State, id: u8, next: &mut Next) {
        let mut read = *state;
        let statements: [fn(&Self, &mut State, u8); 3] = if self.bounds.has(Bug::ClaimRowsReadFirst)
        {
            [Self::read_claims, Self::read_stock, Self::read_numbers]
        } else {
            [Self::read_stock, Self::read_numbers, Self::read_claims]
        };
        if let (At::Reread(statement @ 0..=1), true) =
            (state.walks[usize::from(id)].at, self.bounds.reread_in_steps)
        {
            statements[usize::from(statement)](self, &mut read, id);
            let walk = &mut read.walks[usize::from(id)];
            walk.at = At::Reread(statement + 1);
            next.push((claim(id, "rereads a statement"), read));
            return;
        }
        let rest = if self.bounds.reread_in_steps { &statements[2..] } else { &statements[..] };
        for statement in rest {
            statement(self, &mut read, id);
        }
        let walk = &mut read.walks[usize::from(id)];
        let seen = std::mem::take(&mut walk.seen);
        let decision = self.decide(id, walk.epoch, seen);
        self.follow(&read, id, decision, next);
    }

    fn read_stock(&self, state: &mut State, id: u8) {
        let seen = &mut state.walks[usize::from(id)].seen;
        seen.epoch = state.truth.epoch;
        seen.open = state.truth.is_open();
        seen.stock = state.truth.stock;
    }

    fn read_numbers(&self, state: &mut State, id: u8) {
        let taken = state.truth.taken(self.claims(), self.attempt(id).user);
        let walk = &mut state.walks[usize::from(id)];
        walk.seen.number_taken = taken.meets(walk.numbers);
    }

    fn read_claims(&self, state: &mut State, id: u8) {
        let key = self.attempt(id).key;
        let landed = state.truth.landed_under(self.claims(), key);
        let fenced = state.truth.is_fenced(self.claims(), id);
        let over = state.truth.fences_on_keys[usize::from(key)];
        let walk = &mut state.walks[usize::from(id)];
        walk.seen.landed = landed.map_or(0, |id| id + 1);
        walk.seen.fenced = fenced;
        walk.over = over;
    }

    fn decide(&self, id: u8, epoch: u8, seen: Seen) -> Decision {
        let attempt = self.attempt(id);
        decide_direct(Reread {
            id,
            user: attempt.user,
            quantity: attempt.quantity,
            epoch,
            landed: seen.landed.checked_sub(1),
            fenced: seen.fenced,
            number_taken: seen.number_taken,
            stock: Stock { epoch: seen.epoch, open: seen.open, left: seen.stock },
        })
    }

    /// One arm for each row of the decision table.
    fn follow(&self, state: &State, id: u8, decision: Decision, next: &mut Next) {
        let epoch = state.walks[usize::from(id)].epoch;
        let mut after = *state;
        let what = match decision {
            Decision::Landed => {
                after = after.with_walk(id, At::Settle);
                "decides: landed earlier, 201"
            }
            // Nothing is queued here, so nothing is rejected: see `queued`.
            Decision::Elsewhere | Decision::Rejected => {
                after = after.with_walk(id, At::Release(Ending::Other));
                "decides: landed under another admission"
            }
            Decision::Fenced => {
                after = after.with_walk(id, At::Release(Ending::Other));
                "decides: fenced"
            }
            Decision::StaleEpoch { now } => {
                let now = u8::try_from(now.0).unwrap_or(u8::MAX);
                after.admit_again(id, now);
                "decides: the epoch differs"
            }
            Decision::NumberTaken { .. } => {
                after.wrong = after.wrong.max(epoch);
                after.admit_again(id, 0);
                "decides: a number is taken; the gate is wrong"
            }
            Decision::NotOpen(_) => {
                self.refuse_behind_fence(&mut after, id);
                "decides: not open"
            }
            Decision::Short { .. } => {
                self.doubt(&mut after, epoch);
                self.refuse_behind_fence(&mut after, id);
                "decides: stock short"
            }
            Decision::Retry => {
                let mut again = state.with_walk(id, At::Land);
                if !self.bounds.has(Bug::NotRenewed) {
                    again.walks[usize::from(id)].terms = state.truth.terms;
                }
                next.push((claim(id, "decides: nothing in the way; renews, runs again"), again));
                after = after.with_walk(id, At::Fence(Ending::Other));
                "decides: nothing in the way, but tried often enough; gives up"
            }
        };
        next.push((claim(id, what), after));
    }

    /// After a cut, a landing may find too little stock although the gate is correct. If the gate is wrong, the
    /// keeper's check finds it.
    fn doubt(&self, state: &mut State, epoch: u8) {
        if self.bounds.has(Bug::CutTakenForDrift) {
            state.wrong = state.wrong.max(epoch);
            if self.stock_balances(state) {
                state.broken = Some(Promise::NoNeedlessEpoch);
            }
        }
    }

    fn refuse_behind_fence(&self, state: &mut State, id: u8) {
        if state.truth.landed_under(self.claims(), self.attempt(id).key).is_some() {
            state.broken = Some(Promise::NothingLandedWhenRefused);
        }
        let at = if self.bounds.has(Bug::PipelinedCommit) {
            At::Release(Ending::Refused)
        } else {
            At::Fence(Ending::Refused)
        };
        *state = state.with_walk(id, at);
    }

    fn fence(&self, state: &State, id: u8, ending: Ending, next: &mut Next) {
        let mut fenced = *state;
        match fenced.truth.fence(self.claims(), id, self.bounds.bug) {
            Fence::Stands => {
                let after = fenced.with_walk(id, At::Release(ending));
                next.push((claim(id, "its fence stands"), after));
            }
            Fence::Landed => {
                let after = fenced.with_walk(id, At::Settle);
                next.push((claim(id, "cannot be fenced, it landed: 201"), after));
            }
        }
    }

    /// If the release fails, the resolver releases it.
    fn release(&self, state: &State, id: u8, ending: Ending, next: &mut Next) {
        let epoch = state.walks[usize::from(id)].epoch;
        let end = |mut state: State| {
            match ending {
                Ending::Refused if state.truth.has_landed(id) => {
                    state.broken = Some(Promise::NothingLandedWhenRefused);
                }
                Ending::Refused => state.end(id, At::Refused),
                Ending::Other => state.end(id, At::Done),
            }
            state
        };
        let mut released = *state;
        let user = self.attempt(id).user;
        released.gate.release(self.rules(), epoch, user, id);
        next.push((claim(id, "release.lua; is answered"), end(released)));
        if self.may_be_late(state, LateKind::Release) {
            let late = Self::sent_late(state, Packet::Release { id, epoch });
            next.push((claim(id, "release.lua is late; is answered"), end(late)));
        }
    }

    fn settle(&self, state: &State, id: u8, next: &mut Next) {
        let epoch = state.walks[usize::from(id)].epoch;
        let mut settled = *state;
        if !state.truth.has_landed(id) {
            settled.broken = Some(Promise::LandedWhenAnsweredSo);
        }
        settled.gate.settle(self.rules(), epoch, &[(self.attempt(id).user, id)]);
        settled.end(id, At::Done);
        next.push((claim(id, "settle.lua"), settled));
        if self.may_be_late(state, LateKind::Settle) {
            let mut late = Self::sent_late(state, Packet::Settle { id, epoch });
            late.end(id, At::Done);
            next.push((claim(id, "settle.lua is late"), late));
        }
    }

    /// Answers with a definite 4xx.
    fn refuse(&self, state: &mut State, id: u8) {
        if state.truth.landed_under(self.claims(), self.attempt(id).key).is_some() {
            state.broken = Some(Promise::NothingLandedWhenRefused);
        }
        state.end(id, At::Refused);
    }
}

impl State {
    /// Passes the gate once more under the same id, if allowed.
    fn admit_again(&mut self, id: u8, known: u8) {
        let walk = &mut self.walks[usize::from(id)];
        *walk = if walk.admissions < ADMISSIONS_MAX {
            let known = walk.known.max(known);
            Walk { at: At::Gate, known, admissions: walk.admissions, ..Walk::default() }
        } else {
            Walk::ended(At::Done)
        };
    }
}

fn claim(id: u8, what: &'static str) -> Step {
    Step { who: Who::Claim(id), what }
}
