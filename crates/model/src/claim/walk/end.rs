//! How a claim ends: fences, releases, settlements, and answers.

use coupon::{Open, TemplateState};

use super::{
    super::{
        LateKind, Next, Promise, Protocol, SPARE, State,
        queue::state::{Outcome, bit},
        state::{At, Ending, Packet, Walk},
        truth::Fence,
    },
    claim,
};

impl Protocol {
    pub(super) fn fenced(&self, state: &State, id: u8, ending: Ending) -> (State, &'static str) {
        let mut fenced = *state;
        match fenced.truth.fence(self.claims(), id, self.bounds.bug) {
            Fence::Stands => (fenced.with_walk(id, At::Release(ending)), "its fence stands"),
            Fence::Landed => (fenced.with_walk(id, At::Settle), "cannot be fenced, it landed: 201"),
        }
    }

    /// If the release fails, the resolver releases it.
    pub(super) fn release(&self, state: &State, id: u8, ending: Ending, next: &mut Next) {
        let epoch = state.walk(id).message.epoch;
        let end = |mut state: State| {
            match ending {
                Ending::Refused if state.truth.has_landed(id) => {
                    state.broken = Some(Promise::NothingLandedWhenRefused);
                }
                Ending::Refused => state.end(id, At::Refused),
                Ending::Answered => state.answer(id),
                Ending::Retryable => state.end(id, At::Done),
            }
            state
        };
        let mut released = *state;
        released.gate.release(self.rules(), epoch, self.attempt(id).user, id);
        next.push((claim(id, "release.lua; is answered"), end(released)));
        if self.may_be_late(state, LateKind::Release) {
            let late = Self::sent_late(state, Packet::Release { id, epoch });
            next.push((claim(id, "release.lua is late; is answered"), end(late)));
        }
    }

    pub(super) fn settle(&self, state: &State, id: u8, next: &mut Next) {
        let epoch = state.walk(id).message.epoch;
        let mut settled = *state;
        let lost = state.servers.lost & bit(id) != 0;
        if !state.truth.has_landed(id) && !lost {
            settled.broken = Some(Promise::LandedWhenAnsweredSo);
        }
        settled.gate.settle(self.rules(), epoch, &[(self.attempt(id).user, id)]);
        settled.answer(id);
        next.push((claim(id, "settle.lua; 201"), settled));
        if self.may_be_late(state, LateKind::Settle) {
            let mut late = Self::sent_late(state, Packet::Settle { id, epoch });
            late.answer(id);
            next.push((claim(id, "settle.lua is late; 201"), late));
        }
    }

    pub(super) fn answer_held_back(&self, state: &State, id: u8, next: &mut Next) {
        if state.walk(id).wait == 0 || usize::from(id) == SPARE {
            let mut after = *state;
            after.end(id, At::Answered);
            next.push((claim(id, "no api refuses its user any more: is answered"), after));
        }
    }

    /// Answers with a definite 4xx.
    pub(super) fn refuse(&self, state: &mut State, id: u8) {
        self.check_refusal(state, id);
        state.end(id, At::Refused);
    }

    /// A definite refusal leaves no row of its key, and no request with the key that took its coupon before may land
    /// after it.
    pub(super) fn check_refusal(&self, state: &mut State, id: u8) {
        if !state.gate_is_of_history() {
            return;
        }
        let key = self.attempt(id).key;
        if state.truth.landed_under(self.claims(), key).is_some() {
            state.broken = Some(Promise::NothingLandedWhenRefused);
        }
        let ended = state.truth.state == TemplateState::Ended;
        let can_land = !ended || state.truth.open > Open::Nothing;
        let queue = &state.queue;
        let mut of_key = (0..id).filter(|other| self.attempt(*other).key == key);
        let mut under_way = |other: u8| {
            queue.receipts[usize::from(other)] > 0
                && queue.overtaken & bit(other) == 0
                && queue.told[usize::from(other)] == Outcome::Processing
        };
        if can_land && of_key.any(&mut under_way) {
            state.broken = Some(Promise::NothingUnderWayWhenRefused);
        }
    }
}

impl State {
    /// Answers with success, once no api refuses the user from memory any more.
    pub(super) fn answer(&mut self, id: u8) {
        let wait = self.walk(id).wait;
        if wait > 0 {
            *self.walk_mut(id) = Walk { at: At::HeldBack, wait, ..Walk::default() };
        } else {
            self.end(id, At::Answered);
        }
    }
}
