//! One claim from the gate to its answer.

use super::{
    LateKind, Next, Promise, Protocol, State, Step, Who,
    requests::Verdict,
    state::{At, Ending, Packet, Walk},
    truth::Fence,
};
use crate::{Bug, gate::RequestState};

/// Most admissions of one claim; the constant of `landing`.
const ADMISSIONS_MAX: u8 = 2;

impl Protocol {
    pub(super) fn walk(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walks[usize::from(id)];
        match walk.at {
            At::Unsent if !self.is_next_of_key(state, id) => {}
            At::Unsent | At::Gate => self.ask_gate(state, id, next),
            At::Lookup => self.look_up(state, id, next),
            At::Land => self.land(state, id, next),
            At::Reread { own_reason } => self.reread(state, id, own_reason, next),
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
    fn is_next_of_key(&self, state: &State, id: u8) -> bool {
        let key = self.attempt(id).key;
        let mut earlier = (0..id).filter(|earlier| self.attempt(*earlier).key == key);
        earlier.all(|earlier| state.walks[usize::from(earlier)].at != At::Unsent)
    }

    /// The process adopts the gate's epoch and calls again; here that is one step.
    fn ask_gate(&self, state: &State, id: u8, next: &mut Next) {
        let walk = state.walks[usize::from(id)];
        let epoch = state.gate_epoch();
        let mut asked = *state;
        let verdict = asked.gate.claim(&self.bounds, epoch, self.claim(id));
        let mut lost = asked;
        lost.walks[usize::from(id)].at = At::Gate;
        let admissions = walk.admissions + 1;
        let admitted = |numbers| Walk { at: At::Land, epoch, numbers, admissions };
        let what = match verdict {
            Verdict::Admitted { numbers } => {
                asked.walks[usize::from(id)] = admitted(numbers);
                self.check_ban(state, &mut asked, id);
                "claim.lua: ADMITTED"
            }
            Verdict::Replay { id: mine, state: RequestState::Pending, numbers } if mine == id => {
                asked.walks[usize::from(id)] = admitted(numbers);
                "claim.lua: REPLAY of its own admission"
            }
            // 201 if the claim has landed in MySQL, whatever became of its coupons; otherwise no definite refusal.
            Verdict::Replay { .. } => {
                asked.end(id, At::Done);
                "claim.lua: REPLAY of another admission; MySQL answers"
            }
            Verdict::NotLoaded => {
                asked.end(id, At::Done);
                "claim.lua: not loaded, 503"
            }
            // 201 if the key has landed in MySQL, otherwise 503; the next request has another id.
            Verdict::TooOld => {
                asked.end(id, At::Done);
                "claim.lua: TOO_OLD; MySQL answers, or 503"
            }
            Verdict::Refused { look: true } => {
                asked.walks[usize::from(id)] = Walk::ended(At::Lookup);
                "claim.lua refuses; not final"
            }
            Verdict::Refused { look: false } => {
                self.refuse(&mut asked, id);
                "claim.lua refuses, 409"
            }
        };
        next.push((claim(id, what), asked));
        if matches!(verdict, Verdict::Admitted { .. }) {
            next.push((claim(id, "claim.lua: ADMITTED, the answer is lost; asks again"), lost));
        }
        if self.may_be_late(state, LateKind::Claim) && state.gate.meta.is_some() {
            let late = Self::sent_late(state, Packet::Claim { id, epoch }).with_walk(id, At::Gate);
            next.push((claim(id, "claim.lua is late; asks again"), late));
        }
    }

    /// A gate that contains a movement refuses every user that the movement bans.
    fn check_ban(&self, before: &State, after: &mut State, id: u8) {
        let seq = before.gate.meta.map_or(0, |meta| meta.movement);
        let allowed = self.bounds.lapses_allowed;
        let known = self.is_trusted(before) && seq <= before.truth.last_message();
        if allowed > 0 && known {
            let lapses = before.truth.lapses_at(self.attempt(id).user, seq);
            if lapses >= allowed {
                after.broken = Some(Promise::BannedAreRefused);
            }
        }
    }

    /// A refusal is final only if the key has not landed. A claim that returned its coupons has landed.
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

    fn fence(&self, state: &State, id: u8, ending: Ending, next: &mut Next) {
        let mut fenced = *state;
        match fenced.truth.fence(id) {
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
                Ending::Refused => self.refuse(&mut state, id),
                Ending::Other => state.end(id, At::Done),
            }
            state
        };
        let mut released = *state;
        released.gate.release(epoch, self.attempt(id).user, id);
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
        settled.gate.settle(&self.bounds, epoch, self.attempt(id).user, id);
        settled.end(id, At::Done);
        next.push((claim(id, "settle.lua"), settled));
        if self.may_be_late(state, LateKind::Settle) {
            let mut late = Self::sent_late(state, Packet::Settle { id, epoch });
            late.end(id, At::Done);
            next.push((claim(id, "settle.lua is late"), late));
        }
    }

    /// Answers with a definite 4xx.
    pub(super) fn refuse(&self, state: &mut State, id: u8) {
        if state.truth.landed_under(self.claims(), self.attempt(id).key).is_some() {
            state.broken = Some(Promise::NothingLandedWhenRefused);
        }
        state.end(id, At::Refused);
    }

    /// The trusted gate gave out a number that is taken.
    pub(super) fn report_wrong(&self, state: &mut State, epoch: u8) {
        if epoch == state.truth.epoch && epoch != state.lied {
            state.broken = Some(Promise::NoNeedlessEpoch);
        }
        state.wrong = state.wrong.max(epoch);
    }

    /// Returns whether a number that the reread finds taken shows that the gate is wrong. A reread waits for no lock,
    /// so it may miss a return that the gate already contains. A landing that meets a duplicate waits for the lock.
    pub(super) fn believes_number_taken(&self, own_reason: bool) -> bool {
        own_reason || self.bounds.has(Bug::RereadProvesNumberTaken)
    }
}

impl State {
    /// Passes the gate once more under the same id, if allowed.
    pub(super) fn admit_again(&mut self, id: u8) {
        let walk = &mut self.walks[usize::from(id)];
        *walk = if walk.admissions < ADMISSIONS_MAX {
            Walk { at: At::Gate, admissions: walk.admissions, ..Walk::default() }
        } else {
            Walk::ended(At::Done)
        };
    }
}

pub(super) fn claim(id: u8, what: &'static str) -> Step {
    Step { who: Who::Claim(id), what }
}
