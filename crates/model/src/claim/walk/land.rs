//! The landing of a direct claim, and what follows a rollback.

use coupon::{Decision, LandingMode};

use super::{
    super::{
        LateKind, Next, Promise, Protocol, State,
        state::{At, Ending, Packet, Walk},
        truth::Landing,
    },
    claim,
};
use crate::{Bug, gate::Numbers};

impl Protocol {
    /// A landing waits for the stock row while a transaction that is in the binlog, and not visible yet, locks it.
    pub(super) fn land(&self, state: &State, id: u8, next: &mut Next) {
        let Walk { message, terms, over, .. } = *state.walk(id);
        let landing = Landing { message, terms, over };
        if state.left.rollbacks > 0 {
            let at = At::Reread { statement: 0, own_reason: false };
            let mut rolled_back = state.with_walk(id, at);
            rolled_back.left.rollbacks -= 1;
            next.push((claim(id, "waits too long, or its batch is rolled back"), rolled_back));
        }
        if state.truth.hidden.is_some() {
            return;
        }
        if let Some(landed) = self.landed_at_old_primary(state, landing, LandingMode::Direct) {
            let landed = landed.with_walk(id, At::Settle);
            next.push((claim(id, "lands at the old primary, so it will be lost"), landed));
        }
        let mut landed = *state;
        if self.landing(&mut landed, landing, LandingMode::Direct) {
            next.push((claim(id, "lands"), landed.with_walk(id, At::Settle)));
            if !self.bounds.coarse {
                next.push((claim(id, "lands, the answer is lost; runs again"), landed));
            }
        } else {
            let at = At::Reread { statement: 0, own_reason: true };
            let rolled_back = state.with_walk(id, at);
            if self.bounds.coarse {
                self.reread(&rolled_back, id, 0, true, next);
                return;
            }
            next.push((claim(id, "is rolled back"), rolled_back));
        }
        if self.may_be_late(state, LateKind::Landing) {
            let late = Self::sent_late(state, Packet::Landing(landing));
            next.push((claim(id, "its landing is late; runs again"), late));
        }
    }

    /// The transaction of a landing. Any process may send it, at any time.
    pub(in crate::claim) fn landing(
        &self,
        state: &mut State,
        landing: Landing,
        mode: LandingMode,
    ) -> bool {
        let landed = state.truth.land(self.claims(), &self.bounds, landing, mode);
        if landed && landing.terms < state.truth.terms {
            state.broken = Some(Promise::LandsUnderTheLastValidity);
        }
        if landed && state.walk(landing.message.id).at == At::Refused {
            state.broken = Some(Promise::NothingLandsAfterItsRefusal);
        }
        landed
    }

    /// Three statements that may see different moments; the last one decides.
    pub(super) fn reread(
        &self,
        state: &State,
        id: u8,
        statement: u8,
        own_reason: bool,
        next: &mut Next,
    ) {
        let mut read = *state;
        let statements: [fn(&Self, &mut State, u8); 3] = if self.has(Bug::ClaimRowsReadFirst) {
            [Self::read_claims, Self::read_stock, Self::read_numbers]
        } else {
            [Self::read_stock, Self::read_numbers, Self::read_claims]
        };
        if self.bounds.reread_in_steps && statement <= 1 {
            statements[usize::from(statement)](self, &mut read, id);
            read.walk_mut(id).at = At::Reread { statement: statement + 1, own_reason };
            next.push((claim(id, "rereads a statement"), read));
            return;
        }
        for statement in &statements[usize::from(statement)..] {
            statement(self, &mut read, id);
        }
        let message = read.walk(id).message;
        let seen = std::mem::take(&mut read.walk_mut(id).seen);
        let decision = match seen.decide(self.claims(), &self.bounds, message, LandingMode::Direct)
        {
            Decision::NumberTaken { .. } if !self.believes_number_taken(own_reason) => {
                Decision::Retry
            }
            decision => decision,
        };
        self.follow(&read, id, decision, next);
    }

    /// Returns whether a number that the reread finds taken shows that the gate is wrong. A reread waits for no lock,
    /// so it may miss a return that the gate already contains. A landing that meets a duplicate waits for the lock.
    fn believes_number_taken(&self, own_reason: bool) -> bool {
        own_reason || self.has(Bug::RereadProvesNumberTaken)
    }

    fn read_stock(&self, state: &mut State, id: u8) {
        let truth = state.truth;
        truth.see_stock(&mut state.walk_mut(id).seen);
    }

    fn read_numbers(&self, state: &mut State, id: u8) {
        let user = self.attempt(id).user;
        let taken = state.truth.unique_numbers(self.claims(), user, self.bounds.bug);
        let walk = state.walk_mut(id);
        let meets = taken.meets(walk.message.numbers);
        walk.seen.taken = if meets { walk.message.numbers } else { Numbers::default() };
    }

    fn read_claims(&self, state: &mut State, id: u8) {
        let over = state.truth.fences_on_keys[usize::from(self.attempt(id).key)];
        let truth = state.truth;
        let walk = state.walk_mut(id);
        truth.see_claims(self.claims(), id, self.bounds.bug, &mut walk.seen);
        walk.over = over;
    }

    /// One arm for each row of the decision table.
    fn follow(&self, state: &State, id: u8, decision: Decision, next: &mut Next) {
        let epoch = state.walk(id).message.epoch;
        let mut after = *state;
        let what = match decision {
            Decision::Landed => {
                after = after.with_walk(id, At::Settle);
                "decides: landed earlier, 201"
            }
            Decision::Elsewhere | Decision::Rejected => {
                after = after.with_walk(id, At::Release(Ending::Answered));
                "decides: its key has an answer"
            }
            Decision::Fenced => {
                after = after.with_walk(id, At::Release(Ending::Retryable));
                "decides: fenced"
            }
            Decision::StaleEpoch { now } => {
                after.admit_again(id, u8::try_from(now.0).unwrap_or(u8::MAX));
                "decides: the epoch differs"
            }
            Decision::NumberTaken { .. } => {
                self.report_wrong(&mut after, epoch);
                after.admit_again(id, 0);
                "decides: a number is taken; the gate is wrong"
            }
            Decision::NotOpen(_) => {
                after = self.refused_behind_fence(after, id);
                "decides: not open"
            }
            Decision::Short { .. } => {
                self.doubt(&mut after, epoch);
                after = self.refused_behind_fence(after, id);
                "decides: stock short"
            }
            Decision::Retry => {
                let mut again = state.with_walk(id, At::Land);
                if !self.has(Bug::NotRenewed) {
                    again.walk_mut(id).terms = state.truth.terms;
                }
                next.push((claim(id, "decides: nothing in the way; renews, runs again"), again));
                after = self.behind_fence(after, id, Ending::Retryable);
                "decides: nothing in the way, but tried often enough; gives up"
            }
        };
        next.push((claim(id, what), after));
    }

    /// The gate gave out a number that is taken.
    pub(in crate::claim) fn report_wrong(&self, state: &mut State, epoch: u8) {
        state.wrong = state.wrong.max(epoch);
        if epoch == state.truth.epoch && epoch > state.lied {
            state.broken = Some(Promise::NoNeedlessEpoch);
        }
    }

    /// After a cut, a landing may find too little stock although the gate is correct. If the gate is wrong, the
    /// keeper's check finds it.
    fn doubt(&self, state: &mut State, epoch: u8) {
        if self.has(Bug::CutTakenForDrift) {
            state.wrong = state.wrong.max(epoch);
            if self.stock_balances(state) {
                state.broken = Some(Promise::NoNeedlessEpoch);
            }
        }
    }

    fn refused_behind_fence(&self, mut state: State, id: u8) -> State {
        self.check_refusal(&mut state, id);
        if self.has(Bug::PipelinedCommit) {
            return state.with_walk(id, At::Release(Ending::Refused));
        }
        self.behind_fence(state, id, Ending::Refused)
    }

    fn behind_fence(&self, state: State, id: u8, ending: Ending) -> State {
        let to = state.with_walk(id, At::Fence(ending));
        if self.bounds.coarse { self.fenced(&to, id, ending).0 } else { to }
    }
}
