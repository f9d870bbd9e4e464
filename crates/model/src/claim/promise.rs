//! The promises, in words; [`super::check`] looks for states that break one.

use std::fmt;

/// A promise of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// I1
    NoOversell,
    /// I2
    StockIsTotalLessLive,
    /// I3
    LimitPerUser,
    /// I4
    LandedWhenAnsweredSo,
    /// I5
    NothingLandedWhenRefused,
    /// I5
    NothingLandsAfterItsRefusal,
    /// I5, for direct and queued claims.
    NothingUnderWayWhenRefused,
    /// A key that has its answer takes no coupon that other users are then refused.
    NothingTakenForAnAnsweredKey,
    /// I13: a definite outcome that a client was told never changes.
    OneOutcome,
    /// I13: a claim answered 202 lands, unless a fault happened that its `accept_after` does not cover, the operator
    /// rejects accepted claims, or a cut took its coupon.
    AcceptedLands,
    /// A claim is rejected only for a reason that MySQL confirms.
    RejectedForATrueReason,
    /// I13: at rest every claim with a receipt has a definite outcome.
    EveryReceiptEnds,
    /// I14
    HeldEndsOnce,
    /// I14: a hold lapses after its deadline and not before; after it a hold is neither confirmed nor cancelled.
    LapsesAtItsDeadline,
    /// I14: a payment answered OK has confirmed each of its coupons.
    PaidIsConfirmed,
    /// I14: a reference that was refused is never taken.
    PaymentHasOneAnswer,
    /// I15
    StockIsTheLedgersSum,
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
    /// I6, I7: at rest the gate equals MySQL, and nothing is queued or pending in it.
    QuietGateIsMySqls,
    /// At rest the gate knows its template's state.
    QuietGateKnowsItsState,
    /// Once no process dies any more, all comes to rest.
    ComesToRest,
    /// From every state at rest the client's next few requests bring a final answer.
    FinalAnswerInTheEnd,
    /// A claim is refused only for a reason that MySQL confirms.
    RefusedOnlyForATrueReason,
    /// Claims that land after a change of validity have the new validity. So a process that changes the validity of
    /// earlier coupons finds all of them.
    LandsUnderTheLastValidity,
    /// No new epoch begins while gate and MySQL balance, because an epoch is costly.
    NoNeedlessEpoch,
    /// Coupons are reported missing only if the gate lacks them.
    MissingOnlyIfItIs,
    /// After a failover a raised epoch is not that of a gate whose rows are lost.
    LostHistoryIsNotValid,
    /// No api tells a user who was answered 201 or 202 that the template is sold out.
    AnsweredIsNotRefused,
    /// The gate would have refused the user at some moment within the last lease. So every api sees a change at the
    /// gate, for this user or for all, within a lease.
    AsTheGateDid,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOversell => "more coupons are live than there are",
            Self::StockIsTotalLessLive => "stock is not total less what has not come back",
            Self::LimitPerUser => "a user holds more than the limit",
            Self::LandedWhenAnsweredSo => "201 was answered, and nothing landed",
            Self::NothingLandedWhenRefused => "refused for good, though the key has landed",
            Self::NothingLandsAfterItsRefusal => "it landed after it was refused for good",
            Self::NothingUnderWayWhenRefused => {
                "refused for good, though an earlier request of the key may land"
            }
            Self::NothingTakenForAnAnsweredKey => "a coupon is taken for a key that has its answer",
            Self::OneOutcome => "a client is told two definite outcomes of one claim",
            Self::AcceptedLands => "a 202 that should hold ends rejected or lost",
            Self::RejectedForATrueReason => "rejected for what MySQL does not say",
            Self::EveryReceiptEnds => "all is quiet, and a claim is told to wait for ever",
            Self::HeldEndsOnce => "a coupon ends twice, or comes back without being live",
            Self::LapsesAtItsDeadline => {
                "a hold lapses before its deadline, or ends otherwise after it"
            }
            Self::PaidIsConfirmed => "a payment was answered OK, and a coupon is not confirmed",
            Self::PaymentHasOneAnswer => "a payment was refused for good, and is taken",
            Self::StockIsTheLedgersSum => "stock is not the sum of the ledger",
            Self::GateAccountsForStock => "the gate's stock and what is pending are not the stock",
            Self::GateAccountsForNumbers => "the gate's numbers are not those live or pending",
            Self::GateAccountsForLapses => "the gate's lapses are not those of its movements",
            Self::BannedAreRefused => "a banned user is admitted",
            Self::GateKnowsNoLandingThatIsNot => "the gate knows a landing that MySQL does not",
            Self::PendingIsInFlight => "a pending request is not in flight",
            Self::ConsumedIsContained => "a movement was consumed, and the open gate lacks it",
            Self::QuietGateIsMySqls => "all is quiet, and the gate is not MySQL's",
            Self::QuietGateKnowsItsState => "all is quiet, and the gate's state is not MySQL's",
            Self::ComesToRest => "no process dies any more, and no rest is reached",
            Self::FinalAnswerInTheEnd => "a client that asks again and again gets no final answer",
            Self::RefusedOnlyForATrueReason => "refused for what MySQL does not say",
            Self::LandsUnderTheLastValidity => {
                "it landed with a validity that had been changed before"
            }
            Self::NoNeedlessEpoch => "the books balance, and a new epoch is asked for",
            Self::MissingOnlyIfItIs => "the books balance, and coupons are told missing",
            Self::LostHistoryIsNotValid => "a gate of a lost history becomes valid",
            Self::AnsweredIsNotRefused => "a user who was answered is refused from memory",
            Self::AsTheGateDid => {
                "refused from memory, and for longer than a lease not by the gate"
            }
        })
    }
}
