//! Promises: for every state, for every answer, and for states at rest.

use std::fmt;

use super::{Protocol, state::State};
use crate::gate::{Numbers, Phase, RequestState};

/// A promise of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// I1
    NoOversell,
    /// I2
    StockIsTotalLessLanded,
    /// I3
    LimitPerUser,
    /// I4
    LandedWhenAnsweredSo,
    /// I5
    NothingLandedWhenRefused,
    /// I5
    NothingLandsAfterItsRefusal,
    /// The conservation identity for the stock.
    GateAccountsForStock,
    /// The conservation identity for the numbers.
    GateAccountsForNumbers,
    /// Only a landed claim is answered with 201.
    GateKnowsNoLandingThatIsNot,
    /// Every pending request can be resolved.
    PendingIsInFlight,
    /// I6, I7: at rest the gate equals MySQL.
    QuietGateIsMySqls,
    /// At rest the gate knows its template's state.
    QuietGateKnowsItsState,
    /// From every state at rest the client's next few requests bring a final answer.
    FinalAnswerInTheEnd,
    /// A claim is refused only for a reason that MySQL confirms.
    RefusedOnlyForATrueReason,
    /// Claims that land after a change of validity have the new validity. So a process that changes the validity of
    /// earlier coupons finds all of them.
    LandsUnderTheLastValidity,
    /// The stock is no reason for a new epoch while gate and MySQL balance, because an epoch is costly.
    NoNeedlessEpoch,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOversell => "more has landed than there is",
            Self::StockIsTotalLessLanded => "stock is not total less landed",
            Self::LimitPerUser => "a user holds more than the limit",
            Self::LandedWhenAnsweredSo => "201 was answered, and nothing landed",
            Self::NothingLandedWhenRefused => "refused for good, though the key has landed",
            Self::NothingLandsAfterItsRefusal => "it landed after it was refused for good",
            Self::GateAccountsForStock => "the gate's stock and what is pending are not the stock",
            Self::GateAccountsForNumbers => "the gate's numbers are not those landed or pending",
            Self::GateKnowsNoLandingThatIsNot => "the gate knows a landing that MySQL does not",
            Self::PendingIsInFlight => "a pending request is not in flight",
            Self::QuietGateIsMySqls => "all is quiet, and the gate is not MySQL's",
            Self::QuietGateKnowsItsState => "all is quiet, and the gate's state is not MySQL's",
            Self::FinalAnswerInTheEnd => "a client that asks again and again gets no final answer",
            Self::RefusedOnlyForATrueReason => "refused for what MySQL does not say",
            Self::LandsUnderTheLastValidity => {
                "it landed with a validity that had been changed before"
            }
            Self::NoNeedlessEpoch => "the books balance, and a new epoch is asked for",
        })
    }
}

impl Protocol {
    /// Returns the first promise for every state that this state breaks.
    pub(super) fn broken_in(&self, state: &State) -> Option<Promise> {
        let truth = &state.truth;
        let landed: i16 = truth.landed().map(|(id, _)| i16::from(self.attempt(id).quantity)).sum();
        if landed > truth.total {
            return Some(Promise::NoOversell);
        }
        if truth.stock != truth.total - landed {
            return Some(Promise::StockIsTotalLessLanded);
        }
        if self.bounds.limit > 0 && self.users().any(|user| !self.within_limit(state, user)) {
            return Some(Promise::LimitPerUser);
        }
        if !self.is_trusted(state) {
            return None;
        }
        let requests = state.gate.users.iter().flatten().flat_map(|e| e.requests.as_slice());
        for request in requests {
            let landed = truth.has_landed(request.id);
            let in_flight = state.gate.inflight.iter().any(|id| id == request.id);
            match request.state {
                RequestState::Landed if !landed => {
                    return Some(Promise::GateKnowsNoLandingThatIsNot);
                }
                RequestState::Pending if !in_flight => return Some(Promise::PendingIsInFlight),
                RequestState::Landed | RequestState::Pending => {}
            }
        }
        if !self.stock_balances(state) {
            return Some(Promise::GateAccountsForStock);
        }
        if self.bounds.limit > 0 && self.users().any(|user| !self.numbers_balance(state, user)) {
            return Some(Promise::GateAccountsForNumbers);
        }
        None
    }

    /// Returns the first promise for states at rest that this state breaks.
    pub(super) fn broken_at_rest(&self, state: &State) -> Option<Promise> {
        if !self.is_idle(state) {
            return None;
        }
        self.broken_gate_at_rest(state).or_else(|| self.unanswered(state))
    }

    fn broken_gate_at_rest(&self, state: &State) -> Option<Promise> {
        let caught_up = state.consumed == state.truth.movement && state.look.is_none();
        let meta = state.gate.meta.filter(|_| caught_up && state.gate.inflight.is_empty())?;
        if self.must_rebuild(state) {
            return None;
        }
        let taken =
            |user: u8| state.gate.users[usize::from(user)].map_or(Numbers::default(), |e| e.taken);
        let numbers_differ = self.bounds.limit > 0
            && self.users().any(|user| taken(user) != state.truth.taken(self.claims(), user));
        // The keeper sends changes that were lost on their way. All other changes have arrived.
        let send_lost = state.operator.send_lost;
        let mended = send_lost && self.movement_is_behind(state);
        let differs = (meta.facts.stock != state.truth.stock && !mended) || numbers_differ;
        if differs && state.lied != meta.epoch {
            return Some(Promise::QuietGateIsMySqls);
        }
        let mended = send_lost && self.state_is_behind(state);
        if meta.facts.state != state.truth.state && !mended {
            return Some(Promise::QuietGateKnowsItsState);
        }
        None
    }

    fn users(&self) -> impl Iterator<Item = u8> + use<> {
        let last = self.bounds.attempts.iter().map(|attempt| attempt.user).max();
        0..=last.unwrap_or(0)
    }

    fn within_limit(&self, state: &State, user: u8) -> bool {
        let of_user = state.truth.landed().filter(|(id, _)| self.attempt(*id).user == user);
        let count: u8 = of_user.map(|(id, _)| self.attempt(id).quantity).sum();
        let numbers = state.truth.taken(self.claims(), user);
        count <= self.bounds.limit && numbers.count() == count
    }

    /// Returns whether the gate answers claims in MySQL's epoch and no lie was planted.
    fn is_trusted(&self, state: &State) -> bool {
        state.gate.is_complete()
            && state.gate.meta.is_some_and(|meta| {
                meta.phase == Phase::Open
                    && (meta.run == state.gate.run)
                    && meta.epoch == state.truth.epoch
                    && meta.epoch != state.lied
            })
    }

    /// gate stock + pending = MySQL's stock − movements that the gate does not contain.
    pub(super) fn stock_balances(&self, state: &State) -> bool {
        let Some(meta) = state.gate.meta else { return false };
        let pending: i16 = self.pending(state).map(|request| i16::from(request.quantity)).sum();
        let unheard = state.truth.movements_after(meta.facts.movement);
        let unheard: i16 = unheard.map(|(_, delta)| delta).sum();
        meta.facts.stock + pending == state.truth.stock - unheard
    }

    fn numbers_balance(&self, state: &State, user: u8) -> bool {
        let of_user = self.pending(state).filter(|request| self.attempt(request.id).user == user);
        let landed = state.truth.taken(self.claims(), user);
        let all = of_user.fold(landed, |all, request| all.with(request.numbers));
        let taken = state.gate.users[usize::from(user)].map_or(Numbers::default(), |e| e.taken);
        taken == all
    }

    /// Returns the gate's pending requests that have not landed.
    fn pending(&self, state: &State) -> impl Iterator<Item = crate::gate::Request> {
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
}
