//! claim-lander: lands the claims in the topic. It needs MySQL, but no gate.

use super::{
    Next, Protocol, State, Who,
    gate::Message,
    is_next,
    promise::Promise,
    state::Lander,
    step,
    truth::{Decision, Open, Reason},
};
use crate::Bug;

impl Protocol {
    pub(super) fn run_lander(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Lander(which);
        let lander = state.landers[which];
        if lander != Lander::Idle || is_next(&state.landers, which, &Lander::Idle) {
            let mut after = *state;
            if let Some(what) = self.land_next(&mut after, which) {
                next.push((step(who, what), after));
            }
        }
        if let (Lander::Settle(at, _) | Lander::Release(at, _), true) =
            (lander, state.left.deaf > 0)
        {
            let mut deaf = *state;
            deaf.left.deaf -= 1;
            deaf.landers[which] = Lander::Commit(at);
            next.push((step(who, "the gate does not answer; goes on without it"), deaf));
        }
        if state.left.crashes > 0 && lander != Lander::Idle {
            let mut dead = *state;
            dead.left.crashes -= 1;
            dead.landers[which] = Lander::Idle;
            next.push((step(who, "dies"), dead));
        }
    }

    /// Takes a lander's next step. `None`: there is nothing to land.
    pub(super) fn land_next(&self, state: &mut State, which: usize) -> Option<&'static str> {
        let (lander, what) = match state.landers[which] {
            Lander::Idle => {
                let at = state.committed;
                let message = *state.topic.as_slice().get(usize::from(at))?;
                if self.bounds.has(Bug::OffsetBeforeCommit) {
                    state.commit(at);
                }
                (Lander::Land(at, message), "takes the next message")
            }
            Lander::Land(at, message) => {
                if self.land(&mut state.truth, message, true) {
                    (Lander::Settle(at, message), "lands")
                } else {
                    (Lander::Reread(at, message), "is rolled back")
                }
            }
            Lander::Reread(at, message) => {
                self.lift_foreign(&mut state.truth, message.id);
                self.follow(state, at, message)
            }
            Lander::Reject(at, message, reason) => {
                self.reject_under_lock(state, at, message, reason)
            }
            Lander::Fence(at, message) => {
                // Locks the stock row too, so a client that was told "lost" never gets another outcome.
                let current = state.truth.queued_epoch == message.epoch;
                if current || self.bounds.has(Bug::FenceWithoutEpoch) {
                    Self::fence(&mut state.truth, message.id);
                    (Lander::Release(at, message), "its fence stands beside the key's answer")
                } else {
                    (Lander::Commit(at), "is too late for a fence")
                }
            }
            Lander::Settle(at, Message { id, epoch, .. }) => {
                state.gate.settle(epoch, id);
                (Lander::Commit(at), "settle.lua")
            }
            Lander::Release(at, Message { id, epoch, .. }) => {
                state.gate.release(epoch, self.attempt(id).user, id);
                (Lander::Commit(at), "release.lua")
            }
            Lander::Commit(at) => {
                state.commit(at);
                (Lander::Idle, "commits its offset")
            }
        };
        state.landers[which] = lander;
        Some(what)
    }

    /// One arm for each row of the decision table.
    fn follow(&self, state: &mut State, at: u8, message: Message) -> (Lander, &'static str) {
        match self.decide(&state.truth, message, true) {
            Decision::Landed => (Lander::Settle(at, message), "decides: landed earlier"),
            Decision::Rejected => (Lander::Release(at, message), "decides: rejected earlier"),
            Decision::Elsewhere if self.bounds.has(Bug::ElsewhereWithoutFence) => {
                (Lander::Release(at, message), "decides: its key has an answer")
            }
            Decision::Elsewhere => (Lander::Fence(at, message), "decides: its key has an answer"),
            Decision::Fenced => (Lander::Release(at, message), "decides: fenced"),
            Decision::Stale if self.bounds.has(Bug::LateRowOnKey) => {
                let late = Lander::Reject(at, message, Reason::Failed);
                (late, "decides: too late; a rejected row")
            }
            Decision::Stale => (Lander::Commit(at), "decides: too late, no row"),
            Decision::NumberTaken(_) if self.bounds.has(Bug::NumberTakenRejected) => {
                (Lander::Reject(at, message, Reason::Limit), "decides: its number is taken")
            }
            Decision::NumberTaken(free) => {
                state.wrong = state.wrong.max(message.epoch);
                match free {
                    Some(number) => {
                        let again = Lander::Land(at, Message { number, ..message });
                        (again, "decides: its number is taken; the lowest free one")
                    }
                    None => {
                        (Lander::Reject(at, message, Reason::Limit), "decides: no number is free")
                    }
                }
            }
            Decision::NotOpen => {
                (Lander::Reject(at, message, Reason::NotOpen), "decides: accepted ones are refused")
            }
            Decision::Short => (Lander::Reject(at, message, Reason::Short), "decides: stock short"),
            Decision::Retry => (Lander::Land(at, message), "decides: nothing in the way"),
        }
    }

    /// One transaction: locks the stock row, decides again, and inserts the row only if the decision is the same.
    fn reject_under_lock(
        &self,
        state: &mut State,
        at: u8,
        message: Message,
        reason: Reason,
    ) -> (Lander, &'static str) {
        self.lift_foreign(&mut state.truth, message.id);
        let decision = self.decide(&state.truth, message, true);
        let same = matches!(
            (reason, decision),
            (Reason::Short, Decision::Short)
                | (Reason::Limit, Decision::NumberTaken(None))
                | (Reason::NotOpen, Decision::NotOpen)
        );
        let late = decision == Decision::Stale && self.bounds.has(Bug::RejectedWithoutEpoch);
        let blind = match reason {
            Reason::Failed => true,
            Reason::Limit if self.bounds.has(Bug::NumberTakenRejected) => true,
            Reason::Short | Reason::NotOpen | Reason::Limit => {
                self.bounds.has(Bug::RejectedWithoutLock)
            }
        };
        if (same || late || blind) && self.reject(&mut state.truth, message.id, reason) {
            if !self.is_true(state, message, reason) {
                state.broken = Some(Promise::RejectedForATrueReason);
            }
            (Lander::Release(at, message), "writes the rejected row")
        } else {
            (Lander::Reread(at, message), "finds it otherwise under the lock")
        }
    }

    /// Returns whether MySQL confirms the reason.
    fn is_true(&self, state: &State, message: Message, reason: Reason) -> bool {
        let truth = &state.truth;
        let user = self.attempt(message.id).user;
        match reason {
            Reason::Short => truth.stock < 1,
            Reason::Limit => self.landed_numbers(truth, user).count() >= self.bounds.limit,
            Reason::NotOpen => truth.open == Open::Nothing,
            Reason::Failed => true,
        }
    }
}
