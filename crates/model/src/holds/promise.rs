//! Promises: for every state, for every answer, and for states at rest.

use std::fmt;

use super::{Protocol, state::State};

/// A promise of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// I1
    NoOversell,
    /// I2
    StockIsTotalLessLive,
    /// I3
    LimitPerUser,
    /// I15
    StockIsTheLedgersSum,
    /// I4
    LandedWhenAnsweredSo,
    /// I5
    NothingLandedWhenRefused,
    /// I5
    NothingLandsAfterItsRefusal,
    /// I14
    HeldEndsOnce,
    /// I14: a hold lapses after its deadline and not before; after it a hold is neither confirmed nor cancelled.
    LapsesAtItsDeadline,
    /// I14: a payment answered OK has confirmed each of its coupons.
    PaidIsConfirmed,
    /// I14: a reference that was refused is never taken.
    PaymentHasOneAnswer,
    /// The conservation identity for the stock.
    GateAccountsForStock,
    /// The conservation identity for the numbers.
    GateAccountsForNumbers,
    /// The gate's lapses are those of the movements that it contains.
    GateAccountsForLapses,
    /// A gate that contains the movement that bans a user admits no claim of that user.
    BannedAreRefused,
    /// Only a landed claim is answered with 201.
    GateKnowsNoLandingThatIsNot,
    /// Every pending request can be resolved.
    PendingIsInFlight,
    /// A movement whose message's offset is stored is in the gate, if the gate was open.
    ConsumedIsContained,
    /// I6, I7: at rest the gate equals MySQL.
    QuietGateIsMySqls,
    /// From every state at rest the client's next few requests bring a final answer.
    FinalAnswerInTheEnd,
    /// A claim is refused only for a reason that MySQL confirms.
    RefusedOnlyForATrueReason,
    /// No new epoch begins while gate and MySQL balance, because an epoch is costly.
    NoNeedlessEpoch,
    /// Coupons are reported missing only if the gate lacks them.
    MissingOnlyIfItIs,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOversell => "more coupons are live than there are",
            Self::StockIsTotalLessLive => "stock is not total less what has not come back",
            Self::LimitPerUser => "a user holds more than the limit",
            Self::StockIsTheLedgersSum => "stock is not the sum of the ledger",
            Self::LandedWhenAnsweredSo => "201 was answered, and nothing landed",
            Self::NothingLandedWhenRefused => "refused for good, though the key has landed",
            Self::NothingLandsAfterItsRefusal => "it landed after it was refused for good",
            Self::HeldEndsOnce => "a coupon ends twice, or comes back without being live",
            Self::LapsesAtItsDeadline => {
                "a hold lapses before its deadline, or ends otherwise after it"
            }
            Self::PaidIsConfirmed => "a payment was answered OK, and a coupon is not confirmed",
            Self::PaymentHasOneAnswer => "a payment was refused for good, and is taken",
            Self::GateAccountsForStock => "the gate's stock and what is pending are not the stock",
            Self::GateAccountsForNumbers => "the gate's numbers are not those live or pending",
            Self::GateAccountsForLapses => "the gate's lapses are not those of its movements",
            Self::BannedAreRefused => "a banned user is admitted",
            Self::GateKnowsNoLandingThatIsNot => "the gate knows a landing that MySQL does not",
            Self::PendingIsInFlight => "a pending request is not in flight",
            Self::ConsumedIsContained => "a movement was consumed, and the open gate lacks it",
            Self::QuietGateIsMySqls => "all is quiet, and the gate is not MySQL's",
            Self::FinalAnswerInTheEnd => "a client that asks again and again gets no final answer",
            Self::RefusedOnlyForATrueReason => "refused for what MySQL does not say",
            Self::NoNeedlessEpoch => "the books balance, and a new epoch is asked for",
            Self::MissingOnlyIfItIs => "the books balance, and coupons are told missing",
        })
    }
}

impl Protocol {
    /// Returns the first promise for every state that this state breaks.
    pub(super) fn broken_in(&self, state: &State) -> Option<Promise> {
        let broken = self.broken_truth(&state.truth);
        broken.or_else(|| self.broken_payment(state)).or_else(|| self.broken_gate(state))
    }

    /// Returns the first promise for states at rest that this state breaks.
    pub(super) fn broken_at_rest(&self, state: &State) -> Option<Promise> {
        if !self.is_idle(state) {
            return None;
        }
        self.broken_gate_at_rest(state).or_else(|| self.unanswered(state))
    }

    /// After two checks by the keeper, the consumer and the resolver the gate equals MySQL. Two, because at the first
    /// check admissions in flight may hide that the gate holds too much.
    fn broken_gate_at_rest(&self, state: &State) -> Option<Promise> {
        let mut state = *state;
        self.come_to_rest(&mut state);
        self.come_to_rest(&mut state);
        let meta = state.gate.meta?;
        let truth = &state.truth;
        let differs = self.bounds.users().any(|user| {
            let entry = state.gate.entry(user);
            let numbers = entry.taken == truth.taken(self.claims(), user);
            let lapses = entry.lapses == truth.lapses[usize::from(user)].count;
            self.bounds.limit > 0 && !numbers || self.bounds.lapses_allowed > 0 && !lapses
        });
        let differs = differs || meta.stock != truth.stock || !state.gate.inflight.is_empty();
        differs.then_some(Promise::QuietGateIsMySqls)
    }
}
