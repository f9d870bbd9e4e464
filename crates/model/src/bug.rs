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
    /// `view/begin.lua` keeps existing keys.
    BeginKeepsKeys,
    /// A coupon that leaves the list is also removed from the hash.
    NoTombstone,
    /// `view/complete.lua` does not compare the nonce.
    CompleteWithoutNonce,
    /// The consumer skips a loading view.
    LoadingSkipped,
    /// The lander commits its offset before its transaction.
    OffsetBeforeCommit,
    /// The relay deletes an entry before the broker's ack.
    TrimBeforeAck,
    /// The relay deletes by the stream's id without comparing the run of Redis.
    TrimWithoutRun,
    /// A relay reads new entries only, not what a dead one has left.
    LeftoversNotRead,
    /// The consumer group begins at the end of the stream.
    GroupFromNow,
    /// The relay writes a rejected row for an entry that the broker refuses.
    RelayRejects,
    /// 202 follows the broker's ack without `published.lua`.
    NotConfirmed,
    /// A replay of a queued request is answered 202 at once.
    ReplayAccepted,
    /// WAIT is sent on another connection than `claim.lua`.
    WaitOnAnotherConnection,
    /// A replay that writes nothing is answered 202 after a WAIT.
    ReplayWithoutWrite,
    /// A queued claim of a user whose entry says to look is answered 202 without a look.
    QueuedWithoutLook,
    /// A rebuild does not load users that have only rejected claims.
    RejectedKeysNotLoaded,
    /// The outbox may hold entries when the partition's end is noted.
    OutboxNotEmptied,
    /// The partition's end is noted before `begin.lua`.
    EndNotedBeforeBegin,
    /// MySQL is read before `queued_epoch` is set.
    ReadBeforeQueuedEpoch,
    /// `queued_epoch` is set whatever epoch MySQL has.
    QueuedEpochWithoutCompare,
    /// Whether the template was ever queued is asked when the epoch is raised, not after `begin.lua`.
    NeverQueuedAskedAtRaise,
    /// A rebuild that has nothing to drain leaves `queued_epoch` as it is.
    SkipLeavesQueuedEpoch,
    /// Queued landings are guarded by the epoch of direct ones.
    QueuedGuardHasDirectEpoch,
    /// What is too late gets a rejected row under the client's key.
    LateRowOnKey,
    /// A rejected row is written without deciding again under the lock of the stock row.
    RejectedWithoutLock,
    /// That decision leaves out the epoch.
    RejectedWithoutEpoch,
    /// The lander rejects a claim whose number is taken.
    NumberTakenRejected,
    /// A claim whose key has an answer under another id is skipped without a fence.
    ElsewhereWithoutFence,
    /// The lander fences such a claim whatever `queued_epoch` is.
    FenceWithoutEpoch,
    /// A direct landing takes no rejected row for an answer.
    RejectionUnknownToDirect,
    /// The resolver leaves queued requests alone.
    ResolverIgnoresQueued,
    /// The resolver fences queued requests as it does pending ones.
    ResolverFencesQueued,
    /// The resolver notes the partition's end before it looks into the outbox.
    EndNotedBeforeOutbox,
    /// `GET` reads the row first and `queued_epoch` after it.
    RowReadBeforeEpoch,
    /// Without a gate ENDED is final as soon as the template has ended.
    EndedBeforeTheQueueIsClosed,
    /// The queue is closed after the end without `begin.lua`.
    ClosedWithoutBegin,
    /// A template that rejects what was accepted is taken for one whose queue is closed.
    RefusingTakenForClosed,
    /// A rebuild reads stock and last movement first, and the numbers after them.
    NumbersReadAfterStock,
    /// A rebuild keeps the numbers that came back between its reads.
    NumbersNotFreedWhileLoading,
    /// A rebuild reads the first movement before it raises the epoch, so that freed numbers may land again.
    FirstMovementReadEarly,
    /// A rebuild takes the lapses as its pages show them, whatever the last movement is.
    LapsesAsRead,
    /// A rebuild counts the lapses between its reads again that a page already contains.
    LapsesCountedAgain,
    /// A rebuild loads only users who hold numbers, not those whose coupons all came back.
    ReturnedUsersNotLoaded,
    /// Without a limit a rebuild loads nobody.
    LapsedUsersNotLoaded,
    /// `move.lua` does not compare the number of a return.
    ReturnAppliedTwice,
    /// `move.lua` applies a return although an earlier movement is missing.
    ReturnGapIgnored,
    /// `move.lua` frees the numbers of a movement that the gate already contains.
    NumbersFreedAgain,
    /// `move.lua` also removes the request whose number it frees.
    ReturnRemovesRequest,
    /// `move.lua` counts no lapses of a user without an entry.
    LapsesNeedAnEntry,
    /// Requests dropped under a limit leave no floor.
    LimitedTrimWithoutFloor,
    /// `claim.lua` refuses a banned user before it checks for an earlier request.
    BanBeforeReplay,
    /// A ban is final although the user's entry was loaded from MySQL.
    BanWithoutLook,
    /// After a gap the consumer applies what MySQL shows, which may lack the message's own movement.
    OwnMessageDropped,
    /// A return does not compare the status of the coupons that it has read.
    ReturnWithoutCompare,
    /// A return counts the coupons that it has read instead of those that it locks.
    StockCountsWhatWasRead,
    /// A confirmation does not compare the status of the coupons that it has read.
    ConfirmWithoutCompare,
    /// A hold is confirmed until it is written lapsed, even after its deadline.
    ConfirmAfterDeadline,
    /// A hold is cancelled until it is written lapsed, even after its deadline.
    CancelAfterDeadline,
    /// expiry-worker lapses by its own clock alone.
    LapsedByOwnClock,
    /// `HOLD_LAPSED` is answered as soon as the clock of the answering process says so.
    RefusedByOwnClock,
    /// A payment confirms what is still held of its coupons.
    PaymentInPart,
    /// A number that a reread shows as taken is believed, although the landing was rolled back for another reason.
    RereadProvesNumberTaken,
    /// The unique key covers the numbers of returned coupons too.
    UniqueOverReturned,
    /// The keeper ignores the movements between its two reads.
    KeeperIgnoresReturns,
    /// The audit for what a gate lacks ignores the movements between its two reads.
    AuditIgnoresReturns,
    /// The keeper judges a gate that contains a movement which MySQL does not show yet.
    KeeperJudgesTheUnseen,
    /// The keeper does not bring movements that the gate lacks.
    KeeperLeavesMovements,
    /// A lift is sent to the gate by itself, without a movement's number.
    LiftWithoutSeq,
    /// An api refuses from memory by a scan whose users it did not count at the gate.
    ScanNotProved,
    /// A look allows refusals from the moment of its answer on, not from its beginning.
    LeaseFromTheLooksEnd,
    /// The look does not compare the epoch of the scan.
    LookWithoutEpoch,
    /// The look does not compare the run of Redis.
    LookWithoutRun,
    /// A claim is answered 201 while another api may still refuse its user from memory.
    AnswerBeforeRefusalsEnd,
    /// `open.lua` does not note that apis may refuse by looks at what was there before.
    RebuildNotesNothing,
}
