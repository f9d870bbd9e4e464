//! The landing of one claim, and the decision after a rollback.

use coupon::Decision;

use super::{
    LateKind, Next, Promise, Protocol, State,
    state::{At, Ending, Packet, Walk},
    truth::{Landing, Row},
    walk::claim,
};
use crate::reread::{Reread, Stock, decide_direct};

impl Protocol {
    /// A landing waits for the stock row while a transaction that is in the binlog, and not visible yet, locks it.
    pub(super) fn land(&self, state: &State, id: u8, next: &mut Next) {
        let Walk { epoch, numbers, .. } = state.walks[usize::from(id)];
        let landing = Landing { id, epoch, numbers };
        // At rest there is neither another admission nor a lock to wait for.
        if state.left.rollbacks > 0 {
            let mut rolled_back = state.with_walk(id, At::Reread { own_reason: false });
            rolled_back.left.rollbacks -= 1;
            next.push((claim(id, "waits too long, or its batch is rolled back"), rolled_back));
        }
        if state.truth.hidden.is_some() {
            return;
        }
        let mut landed = *state;
        if self.landing(&mut landed, landing) {
            next.push((claim(id, "lands, held: 201"), landed.with_walk(id, At::Settle)));
            next.push((claim(id, "lands, the answer is lost; runs again"), landed));
        } else {
            let rolled_back = state.with_walk(id, At::Reread { own_reason: true });
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
        if landed && state.walks[usize::from(landing.id)].at == At::Refused {
            state.broken = Some(Promise::NothingLandsAfterItsRefusal);
        }
        landed
    }

    pub(super) fn reread(&self, state: &State, id: u8, own_reason: bool, next: &mut Next) {
        let decision = match self.decide(state, id) {
            Decision::NumberTaken { .. } if !self.believes_number_taken(own_reason) => {
                Decision::Retry
            }
            decision => decision,
        };
        let epoch = state.walks[usize::from(id)].epoch;
        let mut after = *state;
        let what = match decision {
            Decision::Landed => {
                after = after.with_walk(id, At::Settle);
                "decides: landed earlier, 201"
            }
            // Nothing is queued here, so nothing is rejected.
            Decision::Elsewhere | Decision::Rejected => {
                after = after.with_walk(id, At::Release(Ending::Other));
                "decides: landed under another admission"
            }
            Decision::Fenced => {
                after = after.with_walk(id, At::Release(Ending::Other));
                "decides: fenced"
            }
            Decision::StaleEpoch { .. } => {
                after.admit_again(id);
                "decides: the epoch differs"
            }
            Decision::NumberTaken { .. } => {
                self.report_wrong(&mut after, epoch);
                after.admit_again(id);
                "decides: a number is taken; the gate is wrong"
            }
            Decision::NotOpen(_) | Decision::Short { .. } => {
                after = after.with_walk(id, At::Fence(Ending::Refused));
                "decides: stock short"
            }
            Decision::Retry => {
                let again = state.with_walk(id, At::Land);
                next.push((claim(id, "decides: nothing in the way; runs again"), again));
                after = after.with_walk(id, At::Fence(Ending::Other));
                "decides: nothing in the way, but tried often enough; gives up"
            }
        };
        next.push((claim(id, what), after));
    }

    fn decide(&self, state: &State, id: u8) -> Decision {
        let truth = &state.truth;
        let attempt = self.attempt(id);
        let walk = state.walks[usize::from(id)];
        let taken = truth.unique_numbers(self.claims(), attempt.user, self.bounds.bug);
        let landed = truth.landed_under(self.claims(), attempt.key);
        decide_direct(Reread {
            id,
            user: attempt.user,
            quantity: attempt.quantity,
            epoch: walk.epoch,
            landed,
            fenced: truth.claims[usize::from(id)] == Row::Void,
            number_taken: taken.meets(walk.numbers),
            stock: Stock { epoch: truth.epoch, open: true, left: truth.stock },
        })
    }
}
