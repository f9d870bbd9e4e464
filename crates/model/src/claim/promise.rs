//! The promises, in words; [`super::check`] looks for states that break one.

use std::fmt;

macro_rules! promises {
    ($($(#[$doc:meta])* $promise:ident: $broken:literal,)*) => {
        /// A promise of the platform.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Promise {
            $($(#[$doc])* $promise,)*
        }

        impl fmt::Display for Promise {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$promise => $broken,)*
                })
            }
        }
    };
}

// Each with what it looks like when it is broken.
promises! {
    /// I1
    NoOversell: "more coupons are live than there are",
    /// I2
    StockIsTotalLessLive: "stock is not total less what has not come back",
    /// I3
    LimitPerUser: "a user holds more than the limit",
    /// I4
    LandedWhenAnsweredSo: "201 was answered, and nothing landed",
    /// I5
    NothingLandedWhenRefused: "refused for good, though the key has landed",
    /// I5
    NothingLandsAfterItsRefusal: "it landed after it was refused for good",
    /// I5, for direct and queued claims.
    NothingUnderWayWhenRefused: "refused for good, though an earlier request of the key may land",
    /// A key that has its answer takes no coupon that other users are then refused.
    NothingTakenForAnAnsweredKey: "a coupon is taken for a key that has its answer",
    /// I13: a definite outcome that a client was told never changes.
    OneOutcome: "a client is told two definite outcomes of one claim",
    /// I13: a claim answered 202 lands, unless a fault happened that its `accept_after` does not cover, the operator
    /// rejects accepted claims, or a cut took its coupon.
    AcceptedLands: "a 202 that should hold ends rejected or lost",
    /// A claim is rejected only for a reason that MySQL confirms.
    RejectedForATrueReason: "rejected for what MySQL does not say",
    /// I13: at rest every claim with a receipt has a definite outcome.
    EveryReceiptEnds: "all is quiet, and a claim is told to wait for ever",
    /// I14
    HeldEndsOnce: "a coupon ends twice, or comes back without being live",
    /// I14: a hold lapses after its deadline and not before; after it a hold is neither confirmed nor cancelled.
    LapsesAtItsDeadline: "a hold lapses before its deadline, or ends otherwise after it",
    /// I14: a payment answered OK has confirmed each of its coupons.
    PaidIsConfirmed: "a payment was answered OK, and a coupon is not confirmed",
    /// I14: a reference that was refused is never taken.
    PaymentHasOneAnswer: "a payment was refused for good, and is taken",
    /// I15
    StockIsTheLedgersSum: "stock is not the sum of the ledger",
    /// The conservation identity for the stock.
    GateAccountsForStock: "the gate's stock and what is pending are not the stock",
    /// The conservation identity for the numbers.
    GateAccountsForNumbers: "the gate's numbers are not those live or pending",
    /// The gate's lapses are those of the movements that it contains.
    GateAccountsForLapses: "the gate's lapses are not those of its movements",
    /// A gate that contains the movement that bans a user admits no claim of that user.
    BannedAreRefused: "a banned user is admitted",
    /// Only a landed claim is answered with 201.
    GateKnowsNoLandingThatIsNot: "the gate knows a landing that MySQL does not",
    /// Every pending request can be resolved.
    PendingIsInFlight: "a pending request is not in flight",
    /// A movement whose message's offset is stored is in the gate, if the gate was open.
    ConsumedIsContained: "a movement was consumed, and the open gate lacks it",
    /// I6, I7: at rest the gate equals MySQL, and nothing is queued or pending in it.
    QuietGateIsMySqls: "all is quiet, and the gate is not MySQL's",
    /// At rest the gate knows its template's state.
    QuietGateKnowsItsState: "all is quiet, and the gate's state is not MySQL's",
    /// Once no process dies any more, all comes to rest.
    ComesToRest: "no process dies any more, and no rest is reached",
    /// From every state at rest the client's next few requests bring a final answer.
    FinalAnswerInTheEnd: "a client that asks again and again gets no final answer",
    /// A claim is refused only for a reason that MySQL confirms.
    RefusedOnlyForATrueReason: "refused for what MySQL does not say",
    /// Claims that land after a change of validity have the new validity. So a process that changes the validity of
    /// earlier coupons finds all of them.
    LandsUnderTheLastValidity: "it landed with a validity that had been changed before",
    /// No new epoch begins while gate and MySQL balance, because an epoch is costly.
    NoNeedlessEpoch: "the books balance, and a new epoch is asked for",
    /// Coupons are reported missing only if the gate lacks them.
    MissingOnlyIfItIs: "the books balance, and coupons are told missing",
    /// After a failover a raised epoch is not that of a gate whose rows are lost.
    LostHistoryIsNotValid: "a gate of a lost history becomes valid",
    /// No api tells a user who was answered 201 or 202 that the template is sold out.
    AnsweredIsNotRefused: "a user who was answered is refused from memory",
    /// After a pause at the gate was answered no claim is admitted until an operator resumes.
    HaltHolds: "a claim is admitted after a pause at the gate",
    /// A pause at the gate is not carried over to MySQL after a resume that began behind it.
    ResumeStands: "a resume is undone by a pause before it",
    /// The gate would have refused the user at some moment within the last lease. So every api sees a change at the
    /// gate, for this user or for all, within a lease.
    AsTheGateDid: "refused from memory, and for longer than a lease not by the gate",
}
