//! Promises for every state; `rest.rs` has those for states at rest.

use std::fmt;

use super::{
    Protocol, State, bit,
    bounds::{IDS, USERS_MAX},
    gate::{Request, one},
    truth::{Outcome, Reason, Row},
};

/// A promise of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// I1, I2
    NoOversell,
    /// I3
    LimitPerUser,
    /// I5
    NothingLandedWhenRefused,
    /// I5, for direct and queued claims.
    NothingUnderWayWhenRefused,
    /// A key that has its answer takes no coupon that other users are then refused.
    NothingTakenForAnAnsweredKey,
    /// I14: a definite outcome that a client was told never changes.
    OneOutcome,
    /// I14: a claim answered 202 lands, unless a fault happened that its `accept_after` does not cover, the operator
    /// rejects accepted claims, or a cut took its coupon.
    AcceptedLands,
    /// A claim is rejected only for a reason that MySQL confirms.
    RejectedForATrueReason,
    /// The conservation identity for the stock.
    GateAccountsForStock,
    /// The conservation identity for the numbers.
    GateAccountsForNumbers,
    /// Only a landed claim is answered with 201.
    GateKnowsNoLandingThatIsNot,
    /// No new epoch is requested for a request that is in the outbox or the topic, because an epoch is costly.
    NoNeedlessEpoch,
    /// I14: at rest every claim with a receipt has a definite outcome.
    EveryReceiptEnds,
    /// The lander never stops at a message for good.
    ComesToRest,
    /// At rest the gate equals MySQL, and nothing is queued or pending in it.
    QuietGateIsMySqls,
    /// From every state at rest the client's next few requests bring a final answer.
    FinalAnswerInTheEnd,
    /// A claim is refused only for a reason that MySQL confirms.
    RefusedOnlyForATrueReason,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOversell => "more has landed than there is",
            Self::LimitPerUser => "a user holds more than the limit",
            Self::NothingLandedWhenRefused => "refused for good, though the key has landed",
            Self::NothingUnderWayWhenRefused => {
                "refused for good, though an earlier request of the key may land"
            }
            Self::NothingTakenForAnAnsweredKey => "a coupon is taken for a key that has its answer",
            Self::OneOutcome => "a client is told two definite outcomes of one claim",
            Self::AcceptedLands => "a 202 that should hold ends rejected or lost",
            Self::RejectedForATrueReason => "rejected for what MySQL does not say",
            Self::GateAccountsForStock => "the gate's stock and what is pending are not the stock",
            Self::GateAccountsForNumbers => "the gate's numbers are not those landed or pending",
            Self::GateKnowsNoLandingThatIsNot => "the gate knows a landing that MySQL does not",
            Self::NoNeedlessEpoch => "a queued request is carried, and a new epoch is asked for",
            Self::EveryReceiptEnds => "all is quiet, and a claim is told to wait for ever",
            Self::ComesToRest => "no process dies any more, and no rest is reached",
            Self::QuietGateIsMySqls => "all is quiet, and the gate is not MySQL's",
            Self::FinalAnswerInTheEnd => "a client that asks again and again gets no final answer",
            Self::RefusedOnlyForATrueReason => "refused for what MySQL does not say",
        })
    }
}

impl Protocol {
    /// Returns the first promise for every state that this state breaks.
    pub(super) fn broken_in(&self, state: &State) -> Option<Promise> {
        let truth = &state.truth;
        let landed = (0..IDS as u8).filter(|id| truth.has_landed(*id)).count();
        let landed = i16::try_from(landed).unwrap_or(i16::MAX);
        if landed > truth.total || truth.stock != truth.total - landed {
            return Some(Promise::NoOversell);
        }
        if (0..USERS_MAX as u8).any(|user| !self.within_limit(state, user)) {
            return Some(Promise::LimitPerUser);
        }
        if !self.accepted_land(state) {
            return Some(Promise::AcceptedLands);
        }
        self.broken_gate(state)
    }

    fn within_limit(&self, state: &State, user: u8) -> bool {
        let of_user = (0..IDS as u8).filter(|id| self.attempt(*id).user == user);
        let count = of_user.filter(|id| state.truth.has_landed(*id)).count();
        let numbers = self.landed_numbers(&state.truth, user).count();
        count <= usize::from(self.bounds.limit) && usize::from(numbers) == count
    }

    /// Cuts excuse as many rejections for stock as they took coupons. An operator who rejects accepted claims excuses
    /// those rejections.
    fn accepted_land(&self, state: &State) -> bool {
        let mut short = 0;
        for id in (0..IDS as u8).filter(|id| state.kept & bit(*id) != 0) {
            match (state.told[usize::from(id)], state.truth.row(id)) {
                (Outcome::Succeeded | Outcome::Processing, _) => {}
                (_, Row::Rejected(Reason::NotOpen)) => {}
                (_, Row::Rejected(Reason::Short)) => short += 1,
                _ => return false,
            }
        }
        short <= state.truth.cut
    }

    /// Returns the first promise about an open gate in MySQL's epoch that this state breaks.
    fn broken_gate(&self, state: &State) -> Option<Promise> {
        let truth = &state.truth;
        let trusted = |epoch: u8| epoch == truth.epoch && epoch != state.lied;
        let meta = state.gate.answering().filter(|meta| trusted(meta.epoch))?;
        let mut stock = meta.stock;
        let mut taken = [crate::gate::Numbers::default(); USERS_MAX];
        for (user, numbers) in (0..).zip(&mut taken) {
            *numbers = self.landed_numbers(truth, user);
        }
        for id in 0..IDS as u8 {
            match state.gate.request(id) {
                Request::Landed(_) if !truth.has_landed(id) => {
                    return Some(Promise::GateKnowsNoLandingThatIsNot);
                }
                Request::Pending(number) | Request::Queued(number) if !truth.has_landed(id) => {
                    stock += 1;
                    let numbers = &mut taken[usize::from(self.attempt(id).user)];
                    *numbers = numbers.with(one(number));
                }
                Request::Absent | Request::Landed(_) | Request::Pending(_) | Request::Queued(_) => {
                }
            }
        }
        let unheard = usize::from(meta.movement)..usize::from(truth.movement);
        if stock != truth.stock - truth.deltas[unheard].iter().sum::<i16>() {
            return Some(Promise::GateAccountsForStock);
        }
        let differs = state.gate.users.iter().zip(taken).any(|(user, taken)| user.taken != taken);
        differs.then_some(Promise::GateAccountsForNumbers)
    }
}
