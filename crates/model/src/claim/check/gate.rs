//! The identities between MySQL and the gate.

use super::super::{Bounds, Promise, Protocol, State, truth::Truth};
use crate::gate::{Meta, Numbers, Request, RequestState};

impl Protocol {
    /// Returns whether the gate answers claims in MySQL's epoch, and was not made wrong in it.
    pub(in crate::claim) fn is_trusted(&self, state: &State) -> bool {
        let of_epoch = |meta: Meta| meta.epoch == state.truth.epoch && meta.epoch != state.lied;
        state.gate_is_of_history()
            && !state.gate_knows_lost_landing()
            && state.gate.answering().is_some_and(of_epoch)
    }

    /// Returns the first promise about a trusted gate that this state breaks. Everything in the binlog counts as
    /// committed, since it may have reached the gate.
    pub(super) fn broken_gate(&self, state: &State) -> Option<Promise> {
        let meta = state.gate.meta.filter(|_| self.is_trusted(state))?;
        let truth = state.truth.committed();
        for request in state.gate.requests() {
            let in_flight = state.gate.inflight.iter().any(|id| id == request.id);
            match request.state {
                RequestState::Landed if !truth.has_landed(request.id) => {
                    return Some(Promise::GateKnowsNoLandingThatIsNot);
                }
                RequestState::Pending if !in_flight => return Some(Promise::PendingIsInFlight),
                RequestState::Landed | RequestState::Pending | RequestState::Queued => {}
            }
        }
        if !balances(state, &truth) {
            return Some(Promise::GateAccountsForStock);
        }
        let Bounds { limit, lapses_allowed, .. } = self.bounds;
        for user in self.bounds.users() {
            let entry = state.gate.entry(user);
            if limit > 0 && entry.taken != self.expected_numbers(state, &truth, user) {
                return Some(Promise::GateAccountsForNumbers);
            }
            if lapses_allowed > 0 && entry.lapses != truth.lapses_at(user, meta.facts.movement) {
                return Some(Promise::GateAccountsForLapses);
            }
        }
        None
    }

    /// gate stock + pending = MySQL's stock − movements that the gate does not contain.
    pub(in crate::claim) fn stock_balances(&self, state: &State) -> bool {
        balances(state, &state.truth.committed())
    }

    /// Returns the numbers that are live, pending, or freed by a movement that the gate does not contain.
    fn expected_numbers(&self, state: &State, truth: &Truth, user: u8) -> Numbers {
        let heard = state.gate.meta.map_or(0, |meta| meta.facts.movement);
        let mut all = truth.taken(self.claims(), user);
        if self.bounds.held {
            for (_, movement) in truth.movements_after(heard) {
                all = all.with(movement.returned[usize::from(user)].numbers);
            }
        }
        let of_user = pending(state, truth).filter(|r| self.attempt(r.id).user == user);
        of_user.fold(all, |all, request| all.with(request.numbers))
    }
}

fn balances(state: &State, truth: &Truth) -> bool {
    let Some(meta) = state.gate.meta else { return false };
    let pending: i16 = pending(state, truth).map(|request| i16::from(request.quantity)).sum();
    let unheard = truth.delta_between(meta.facts.movement, truth.movement);
    meta.facts.stock + pending == truth.stock - unheard
}

/// Returns the gate's pending and queued requests that have not landed.
fn pending<'a>(state: &'a State, truth: &'a Truth) -> impl Iterator<Item = &'a Request> {
    let open =
        |request: &&Request| request.state != RequestState::Landed && !truth.has_landed(request.id);
    state.gate.requests().filter(open)
}
