//! claim-lander: lands the claims in the topic. It needs MySQL, but no gate.

use coupon::{Decision, LandingMode};

use super::{
    super::{
        Next, Promise, Protocol, State, Who, dies, is_next, step,
        truth::{Landing, Reason},
    },
    state::Lander,
};
use crate::{
    Bug,
    gate::{Message, Numbers},
};

impl Protocol {
    pub(super) fn run_lander(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Lander(which);
        let lander = state.queue.landers[which];
        if lander != Lander::Idle || is_next(&state.queue.landers, which, &Lander::Idle) {
            let mut after = *state;
            if let Some(what) = self.land_next(&mut after, which) {
                next.push((step(who, what), after));
            }
        }
        if let Lander::Land(at, message) = lander {
            let landing = Landing { message, terms: state.truth.terms, over: 0 };
            let lost = self.landed_at_old_primary(state, landing, LandingMode::Queued);
            if let Some(mut lost) = lost {
                lost.queue.landers[which] = Lander::Settle(at, message);
                next.push((step(who, "lands at the old primary, so it will be lost"), lost));
            }
        }
        if let (Lander::Settle(at, _) | Lander::Release(at, _), true) =
            (lander, state.left.deaf > 0)
        {
            let mut deaf = *state;
            deaf.left.deaf -= 1;
            deaf.queue.landers[which] = Lander::Commit(at);
            next.push((step(who, "the gate does not answer; goes on without it"), deaf));
        }
        if lander != Lander::Idle {
            dies(state, who, next, |dead| dead.queue.landers[which] = Lander::Idle);
        }
    }

    /// Takes a lander's next step. `None`: there is nothing to land, or it waits for a lock.
    pub(in crate::claim) fn land_next(
        &self,
        state: &mut State,
        which: usize,
    ) -> Option<&'static str> {
        let lander = state.queue.landers[which];
        let locks = matches!(lander, Lander::Land(..) | Lander::Reject(..) | Lander::Fence(..));
        if locks && state.truth.hidden.is_some() {
            return None;
        }
        let (lander, what) = match lander {
            Lander::Idle => {
                let at = state.queue.committed;
                let message = *state.queue.waiting().first()?;
                if self.has(Bug::OffsetBeforeCommit) {
                    state.queue.commit(at);
                }
                (Lander::Land(at, message), "takes the next message")
            }
            Lander::Land(at, message) => {
                let terms = state.truth.terms;
                let landing = Landing { message, terms, over: 0 };
                if self.landing(state, landing, LandingMode::Queued) {
                    (Lander::Settle(at, message), "lands")
                } else {
                    (Lander::Reread(at, message), "is rolled back")
                }
            }
            Lander::Reread(at, message) => {
                state.truth.lift_foreign(message.id, self.bounds.bug);
                self.follow_queued(state, at, message)
            }
            Lander::Reject(at, message, reason) => {
                self.reject_under_lock(state, at, message, reason)
            }
            Lander::Fence(at, message) => {
                // Locks the stock row too, so a client that was told "lost" never gets another outcome.
                let current = message.epoch >= state.truth.queued_epoch;
                if current || self.has(Bug::FenceWithoutEpoch) {
                    state.truth.fence(self.claims(), message.id, self.bounds.bug);
                    (Lander::Release(at, message), "its fence stands beside the key's answer")
                } else {
                    (Lander::Commit(at), "is too late for a fence")
                }
            }
            Lander::Settle(at, Message { id, epoch, .. }) => {
                state.gate.settle(self.rules(), epoch, &[(self.attempt(id).user, id)]);
                (Lander::Commit(at), "settle.lua")
            }
            Lander::Release(at, Message { id, epoch, .. }) => {
                state.gate.release(self.rules(), epoch, self.attempt(id).user, id);
                (Lander::Commit(at), "release.lua")
            }
            Lander::Commit(at) => {
                state.queue.commit(at);
                (Lander::Idle, "commits its offset")
            }
        };
        state.queue.landers[which] = lander;
        Some(what)
    }

    /// One arm for each row of the decision table.
    fn follow_queued(&self, state: &mut State, at: u8, message: Message) -> (Lander, &'static str) {
        match state.truth.decide_queued(self.claims(), &self.bounds, message) {
            Decision::Landed => (Lander::Settle(at, message), "decides: landed earlier"),
            Decision::Rejected => (Lander::Release(at, message), "decides: rejected earlier"),
            Decision::Elsewhere if self.has(Bug::ElsewhereWithoutFence) => {
                (Lander::Release(at, message), "decides: its key has an answer")
            }
            Decision::Elsewhere => (Lander::Fence(at, message), "decides: its key has an answer"),
            Decision::Fenced => (Lander::Release(at, message), "decides: fenced"),
            Decision::StaleEpoch { .. } if self.has(Bug::LateRowOnKey) => {
                let late = Lander::Reject(at, message, Reason::Failed);
                (late, "decides: too late; a rejected row")
            }
            Decision::StaleEpoch { .. } => (Lander::Commit(at), "decides: too late, no row"),
            Decision::NumberTaken { .. } if self.has(Bug::NumberTakenRejected) => {
                (Lander::Reject(at, message, Reason::Limit), "decides: its number is taken")
            }
            Decision::NumberTaken { free } => {
                self.report_wrong(state, message.epoch);
                match free {
                    Some(free) => {
                        let numbers: Numbers = free.iter().copied().collect();
                        let again = Lander::Land(at, Message { numbers, ..message });
                        (again, "decides: its number is taken; the lowest free one")
                    }
                    None => {
                        (Lander::Reject(at, message, Reason::Limit), "decides: no number is free")
                    }
                }
            }
            Decision::NotOpen(_) => {
                (Lander::Reject(at, message, Reason::NotOpen), "decides: accepted ones are refused")
            }
            Decision::Short { .. } => {
                (Lander::Reject(at, message, Reason::Short), "decides: stock short")
            }
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
        let id = message.id;
        state.truth.lift_foreign(id, self.bounds.bug);
        let decision = state.truth.decide_queued(self.claims(), &self.bounds, message);
        let same = matches!(
            (reason, &decision),
            (Reason::Short, Decision::Short { .. })
                | (Reason::Limit, Decision::NumberTaken { free: None })
                | (Reason::NotOpen, Decision::NotOpen(_))
        );
        let stale = matches!(decision, Decision::StaleEpoch { .. });
        let late = stale && self.has(Bug::RejectedWithoutEpoch);
        let blind = match reason {
            Reason::Failed => true,
            Reason::Limit if self.has(Bug::NumberTakenRejected) => true,
            Reason::Short | Reason::NotOpen | Reason::Limit => self.has(Bug::RejectedWithoutLock),
        };
        if (same || late || blind) && state.truth.reject(self.claims(), id, reason) {
            if !state.truth.confirms(self.claims(), &self.bounds, id, reason) {
                state.broken = Some(Promise::RejectedForATrueReason);
            }
            (Lander::Release(at, message), "writes the rejected row")
        } else {
            (Lander::Reread(at, message), "finds it otherwise under the lock")
        }
    }
}
