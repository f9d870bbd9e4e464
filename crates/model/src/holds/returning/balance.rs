//! The identities between MySQL and the gate, and within MySQL's rows.

use super::{Promise, Protocol, State, ledger::Movement, truth::Truth};
use crate::gate::{Numbers, Phase, Request, RequestState};

impl Protocol {
    /// Returns the first promise that MySQL's visible rows break. These promises hold at every moment.
    pub(in crate::holds) fn broken_truth(&self, truth: &Truth) -> Option<Promise> {
        let live: i16 = truth.landed().map(|(_, coupons)| i16::from(coupons.live())).sum();
        if live > truth.total {
            return Some(Promise::NoOversell);
        }
        if truth.stock != truth.total - live {
            return Some(Promise::StockIsTotalLessLive);
        }
        let landed: i16 = truth.landed().map(|(id, _)| i16::from(self.attempt(id).quantity)).sum();
        let movements = &truth.movements[..usize::from(truth.movement)];
        let sum = |delta: fn(&Movement) -> i16| -> i16 { movements.iter().map(delta).sum() };
        if truth.stock != self.bounds.total + sum(|movement| movement.delta_stock) - landed
            || truth.total != self.bounds.total + sum(|movement| movement.delta_total)
        {
            return Some(Promise::StockIsTheLedgersSum);
        }
        if self.bounds.limit > 0 && self.bounds.users().any(|user| !self.within_limit(truth, user))
        {
            return Some(Promise::LimitPerUser);
        }
        None
    }

    fn within_limit(&self, truth: &Truth, user: u8) -> bool {
        let of_user = truth.landed().filter(|(id, _)| self.attempt(*id).user == user);
        let live: u8 = of_user.map(|(_, coupons)| coupons.live()).sum();
        live <= self.bounds.limit && truth.taken(self.claims(), user).count() == live
    }

    /// Returns the first promise about a trusted gate that this state breaks. Everything in the binlog counts as
    /// committed, since it may have reached the gate.
    pub(in crate::holds) fn broken_gate(&self, state: &State) -> Option<Promise> {
        let meta = state.gate.meta.filter(|_| self.is_trusted(state))?;
        let truth = state.truth.committed();
        let requests = state.gate.users.iter().flatten().flat_map(|e| e.requests.as_slice());
        for request in requests {
            let in_flight = state.gate.inflight.iter().any(|id| id == request.id);
            match request.state {
                RequestState::Landed if !truth.has_landed(request.id) => {
                    return Some(Promise::GateKnowsNoLandingThatIsNot);
                }
                RequestState::Pending if !in_flight => return Some(Promise::PendingIsInFlight),
                RequestState::Landed | RequestState::Pending => {}
            }
        }
        let pending: i16 = self.pending(state).map(|request| i16::from(request.quantity)).sum();
        let unheard = truth.delta_between(meta.movement, truth.movement);
        if meta.stock + pending != truth.stock - unheard {
            return Some(Promise::GateAccountsForStock);
        }
        for user in self.bounds.users() {
            let entry = state.gate.entry(user);
            if self.bounds.limit > 0 && entry.taken != self.expected_numbers(state, &truth, user) {
                return Some(Promise::GateAccountsForNumbers);
            }
            let lapses = truth.lapses_at(user, meta.movement);
            if self.bounds.lapses_allowed > 0 && entry.lapses != lapses {
                return Some(Promise::GateAccountsForLapses);
            }
        }
        None
    }

    /// Returns the numbers that are live, pending, or freed by a movement that the gate does not contain.
    fn expected_numbers(&self, state: &State, truth: &Truth, user: u8) -> Numbers {
        let heard = state.gate.meta.map_or(0, |meta| meta.movement);
        let live = truth.taken(self.claims(), user);
        let unheard = truth.movements_after(heard);
        let held = unheard.fold(live, |all, (_, movement)| {
            all.with(movement.returned[usize::from(user)].numbers)
        });
        let of_user = self.pending(state).filter(|request| self.attempt(request.id).user == user);
        of_user.fold(held, |all, request| all.with(request.numbers))
    }

    /// Returns the gate's pending requests that have not landed.
    fn pending(&self, state: &State) -> impl Iterator<Item = Request> {
        let truth = state.truth;
        let entries = state.gate.users.into_iter().flatten();
        let requests = entries.flat_map(|entry| {
            let requests = entry.requests;
            (0..requests.as_slice().len()).map(move |at| requests.as_slice()[at])
        });
        requests.filter(move |request| {
            request.state == RequestState::Pending && !truth.has_landed(request.id)
        })
    }

    /// Returns whether the gate answers claims in its own epoch.
    pub(in crate::holds) fn is_open(&self, state: &State) -> bool {
        let open =
            |meta: super::gate::Meta| meta.phase == Phase::Open && meta.run == state.gate.run;
        state.gate.is_complete() && state.gate.meta.is_some_and(open)
    }

    /// Returns whether the gate answers claims in MySQL's epoch, and was not made wrong in it.
    pub(in crate::holds) fn is_trusted(&self, state: &State) -> bool {
        let epoch = state.gate_epoch();
        self.is_open(state) && epoch == state.truth.epoch && epoch != state.lied
    }
}
