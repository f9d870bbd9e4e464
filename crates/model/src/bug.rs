//! Incorrect variants of the protocols: each was once proposed, or differs from the code by one line. A search that
//! does not find them proves nothing, so each has a test that it is caught.

/// A planted mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The fence uses the client's key instead of a separate key, so it can be taken over.
    FenceOnClientsKey,
    /// A refusal is final although the user's entry was loaded from MySQL, so the winner is refused.
    RefusalWithoutLook,
    /// The same without a limit, where a newly loaded gate knows no requests at all.
    LimitlessRefusalWithoutLook,
    /// A rebuild continues although MySQL's epoch is no longer its own.
    RebuildWithoutEpochCheck,
    /// No `begin.lua`: a rebuild replaces any gate that is absent or older.
    RebuildWithoutBegin,
    /// `open.lua` opens any loading gate.
    OpenFromAnyLoading,
    /// The keeper accepts a gate whose epoch is behind MySQL's.
    KeeperIgnoresEpoch,
    /// `claim.lua` does not compare the caller's epoch.
    ClaimWithoutEpoch,
    /// `open.lua` overwrites a newer state with the one that the rebuilder read.
    OpenOverwritesState,
    /// `set_state.lua` overwrites a newer version with an older one.
    StateWithoutVersion,
    /// `set_state.lua` has no effect while the gate is loading.
    StateLostWhileLoading,
    /// The keeper accepts a gate whose template version is behind MySQL's.
    KeeperIgnoresVersion,
    /// Scripts do not compare the run of Redis, so a rewind goes unnoticed.
    RunNotCompared,
    /// The reread reads the claim rows first instead of last.
    ClaimRowsReadFirst,
    /// A landing is sent whole, including COMMIT, and a refusal releases without a fence.
    PipelinedCommit,
    /// The resolver selects the claim's row instead of inserting a fence.
    ResolverDecidesBySelect,
    /// The guard does not compare the epoch.
    GuardWithoutEpoch,
    /// The guard does not check whether the validity has changed since the coupons were made.
    GuardWithoutTerms,
    /// A landing that was rolled back is repeated with its old validity.
    NotRenewed,
    /// The gate counts coupons instead of assigning numbers.
    CountInsteadOfNumbers,
    /// `release.lua` gives a coupon back whether or not it finds the request.
    ReleaseNotIdempotent,
    /// `claim.lua` refuses before it checks for an earlier request.
    RefusalBeforeReplay,
    /// `settle.lua` drops the oldest requests, including pending ones.
    PendingDropped,
    /// `claim.lua` admits requests again that the entry has dropped.
    DroppedAdmittedAgain,
    /// A claim to an ended template without a gate is answered that the gate is loading.
    EndedWithoutGateUnanswered,
    /// `move.lua` does not compare the movement's number.
    MovementTwice,
    /// `move.lua` applies a movement although an earlier one is missing.
    MovementGapIgnored,
    /// A rebuild does not apply the movements that were made while it was loading.
    MovementLostWhileLoading,
    /// The keeper accepts a gate whose last movement is behind MySQL's.
    KeeperIgnoresMovement,
    /// The keeper compares stocks without checking that they contain the same movements.
    KeeperIgnoresMovementsInStock,
    /// A rebuild reads the stock and the last movement in two statements.
    StockAndMovementApart,
    /// `move.lua` does not let the stock become negative.
    CutClampedAtZero,
    /// A short stock always causes a new epoch, even if only a cut has not reached the gate.
    CutTakenForDrift,
    /// A view's rebuild reads only the unused coupons.
    RebuildReadsUnusedOnly,
    /// A view's rebuild reads each row at the moment it loads it.
    PiecesOfDifferentMoments,
    /// A member missing after its write is written again, whatever has happened since.
    WriteAgainUnconditional,
    /// Only the hash carries the rebuild's nonce.
    NonceInHashOnly,
    /// `view_begin.lua` keeps existing keys.
    BeginKeepsKeys,
    /// A coupon that leaves the list is also removed from the hash.
    NoTombstone,
    /// `view_complete.lua` does not compare the nonce.
    CompleteWithoutNonce,
    /// The consumer skips a loading view.
    LoadingSkipped,
}
