//! Wordings of the protocols that break: each was once proposed, or is one line away from what is
//! written. A search that does not find them proves nothing, so each has a test that it is caught.

/// A planted mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The fence stands on the client's key instead of a key of its own: it can be taken over.
    FenceOnClientsKey,
    /// A refusal is final though the user's entry was loaded from MySQL: the winner is refused.
    RefusalWithoutLook,
    /// The same without a limit, where a loaded gate knows of no request at all.
    LimitlessRefusalWithoutLook,
    /// A rebuild goes on though MySQL's epoch is no longer its own.
    RebuildWithoutEpochCheck,
    /// No `begin.lua`: a rebuild replaces whatever gate is absent or older.
    RebuildWithoutBegin,
    /// `open.lua` opens any gate that is being loaded.
    OpenFromAnyLoading,
    /// The keeper lets a gate be whose epoch is behind MySQL's.
    KeeperIgnoresEpoch,
    /// `claim.lua` does not compare the caller's epoch.
    ClaimWithoutEpoch,
    /// `open.lua` writes the state that the rebuilder read over a newer one.
    OpenOverwritesState,
    /// `set_state.lua` writes an older version over a newer one.
    StateWithoutVersion,
    /// `set_state.lua` has no effect while the gate is being loaded.
    StateLostWhileLoading,
    /// The keeper lets a gate be whose template version is behind MySQL's.
    KeeperIgnoresVersion,
    /// Scripts do not compare the run of Redis: a rewind goes unnoticed.
    RunNotCompared,
    /// The reread begins with the claim rows instead of ending with them.
    ClaimRowsReadFirst,
    /// A landing is sent whole, COMMIT included, and a refusal releases without a fence.
    PipelinedCommit,
    /// The resolver looks for the claim's row instead of placing a fence.
    ResolverDecidesBySelect,
    /// The guard does not compare the epoch.
    GuardWithoutEpoch,
    /// The guard does not ask whether the validity has changed since the coupons were made.
    GuardWithoutTerms,
    /// A landing that was rolled back runs again with the validity it had.
    NotRenewed,
    /// The gate counts instead of handing out numbers.
    CountInsteadOfNumbers,
    /// `release.lua` gives a coupon back whether or not it finds the request.
    ReleaseNotIdempotent,
    /// `claim.lua` refuses before it looks for the request.
    RefusalBeforeReplay,
    /// `settle.lua` drops the oldest requests, pending ones too.
    PendingDropped,
    /// `claim.lua` admits again what the entry has dropped.
    DroppedAdmittedAgain,
    /// A claim whose ended template has no gate any more is told to wait for the gate.
    EndedWithoutGateUnanswered,
    /// `move.lua` does not compare the movement's number.
    MovementTwice,
    /// `move.lua` applies a movement though an earlier one is missing.
    MovementGapIgnored,
    /// A rebuild does not ask for the movements that came while it was loading.
    MovementLostWhileLoading,
    /// The keeper lets a gate be whose last movement is behind MySQL's.
    KeeperIgnoresMovement,
    /// The keeper compares stocks without asking whether they contain the same movements.
    KeeperIgnoresMovementsInStock,
    /// A rebuild reads the stock and the last movement in two statements.
    StockAndMovementApart,
    /// `move.lua` does not let the stock fall below zero.
    CutClampedAtZero,
    /// A short stock always means a new epoch, also where only a cut has not reached the gate.
    CutTakenForDrift,
    /// A view's rebuild reads only the unused coupons.
    RebuildReadsUnusedOnly,
    /// A view's rebuild reads each row as of the moment at which it loads it.
    PiecesOfDifferentMoments,
    /// A member missing after its write is written again whatever has happened since.
    WriteAgainUnconditional,
    /// Only the hash carries the rebuild's nonce.
    NonceInHashOnly,
    /// `view_begin.lua` keeps what is there.
    BeginKeepsKeys,
    /// A coupon that leaves the list leaves the hash too.
    NoTombstone,
    /// `view_complete.lua` does not compare the nonce.
    CompleteWithoutNonce,
    /// The consumer skips a view that is being loaded.
    LoadingSkipped,
}
