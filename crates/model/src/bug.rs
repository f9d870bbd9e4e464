//! Incorrect variants of the protocols. Each was once proposed, or differs from the code by one line. A search that
//! does not find them proves nothing, so a test checks for each that the search finds it.
//!
//! Three rules have no planted mistake, because nothing breaks without them within the bounds:
//! - A renewal of a worker number compares the holder: who takes a number in use waits for the range of its holder.
//! - `view/load.lua` compares the nonce: rows are applied only if newer, and `view/complete.lua` compares the nonce.
//! - The gate compares its number of users with HLEN: Redis does not lose single fields by itself.

/// A planted mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The fence uses the client's key instead of a separate key, so it can be taken over.
    FenceOnClientsKey,
    /// A refusal is final although the user's entry was loaded from MySQL, so the winner is refused.
    RefusalWithoutLook,
    /// The same for a template without a limit, whose newly loaded gate has no requests at all.
    LimitlessRefusalWithoutLook,
    /// A rebuild continues although another process has raised MySQL's epoch since.
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
    /// A claim of an ended template that has no gate is answered `GATE_LOADING`.
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
    /// A landing that finds too little stock always causes a new epoch, even if only a cut has not reached the gate.
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
    /// After a failover of MySQL that lost a raise, the same generation is given again.
    GenerationGivenTwice,
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
    /// A queued claim is answered 202 without looking its key up in MySQL, although the user's entry demands it.
    QueuedWithoutLook,
    /// A queued claim takes its coupon before its key is looked up in MySQL, although the user's entry demands it.
    QueuedBeforeLook,
    /// A rebuild does not load users that have only rejected claims.
    RejectedKeysNotLoaded,
    /// A rebuild loads users who hold coupons without the demand to look their keys up.
    LandedKeysNotLoaded,
    /// A rebuild begins its epoch once more after it has read MySQL.
    BegunAgainAfterRead,
    /// A rebuild raises MySQL's epoch by one, though the gate knows a later one.
    EpochNotAboveTheGates,
    /// The outbox may hold entries when the partition's end is noted.
    OutboxNotEmptied,
    /// The partition's end is noted before `begin.lua`.
    EndNotedBeforeBegin,
    /// MySQL is read before `queued_epoch` is set.
    ReadBeforeQueuedEpoch,
    /// A rebuild reads whether the template was ever queued when it raises the epoch, not after `begin.lua`.
    NeverQueuedAskedAtRaise,
    /// The guard of a queued landing compares the epoch of direct ones.
    QueuedGuardHasDirectEpoch,
    /// A queued claim that is too late gets a rejected row under the client's key.
    LateRowOnKey,
    /// A rejected row is written without deciding again under the lock of the stock row.
    RejectedWithoutLock,
    /// The decision under the lock does not compare the epoch.
    RejectedWithoutEpoch,
    /// The lander rejects a claim whose number is taken.
    NumberTakenRejected,
    /// A claim whose key has an answer under another id is skipped without a fence.
    ElsewhereWithoutFence,
    /// A fence that a lookup placed in another template binds the claim.
    ForeignFenceBinds,
    /// The lander fences such a claim without comparing `queued_epoch`.
    FenceWithoutEpoch,
    /// A direct landing ignores a rejected row under its key.
    RejectionUnknownToDirect,
    /// The resolver leaves queued requests alone.
    ResolverIgnoresQueued,
    /// The resolver fences queued requests as it does pending ones.
    ResolverFencesQueued,
    /// The resolver notes the partition's end before it looks into the outbox.
    EndNotedBeforeOutbox,
    /// `GET` reads the row first and `queued_epoch` after it.
    RowReadBeforeEpoch,
    /// For a template without a gate, ENDED is final as soon as the template has ended.
    EndedBeforeTheQueueIsClosed,
    /// The queue is closed after the end without `begin.lua`.
    ClosedWithoutBegin,
    /// A template that rejects accepted claims counts as one whose queue is closed.
    RefusingTakenForClosed,
    /// A rebuild reads stock and last movement first, and the numbers after them.
    NumbersReadAfterStock,
    /// A rebuild keeps the numbers that were returned between its reads.
    NumbersNotFreedWhileLoading,
    /// A rebuild reads the first movement before it raises the epoch, so that freed numbers may land again.
    FirstMovementReadEarly,
    /// A rebuild loads the lapses as its pages show them, without those of the movements up to the last one.
    LapsesAsRead,
    /// A rebuild counts lapses between its reads twice, if a page already contains them.
    LapsesCountedAgain,
    /// A rebuild loads only users who hold numbers, not those who have returned all their coupons.
    ReturnedUsersNotLoaded,
    /// A rebuild of a template without a limit loads no users.
    LapsedUsersNotLoaded,
    /// `move.lua` frees the numbers of a movement that the gate already contains.
    NumbersFreedAgain,
    /// `move.lua` also removes the request whose number it frees.
    ReturnRemovesRequest,
    /// `move.lua` counts no lapses of a user without an entry.
    LapsesNeedAnEntry,
    /// An entry of a template with a limit drops requests without keeping a floor.
    LimitedTrimWithoutFloor,
    /// `claim.lua` refuses a banned user before it checks for an earlier request.
    BanBeforeReplay,
    /// A ban is final although the user's entry was loaded from MySQL.
    BanWithoutLook,
    /// After a gap the consumer applies only the movements that MySQL shows, which may lack the message's own.
    OwnMessageDropped,
    /// A return does not compare the status of the coupons that it has read.
    ReturnWithoutCompare,
    /// A return counts the coupons that it has read instead of those that it locks.
    StockCountsWhatWasRead,
    /// A confirmation does not compare the status of the coupons that it has read.
    ConfirmWithoutCompare,
    /// A hold whose deadline has passed can be confirmed as long as its row does not say that it lapsed.
    ConfirmAfterDeadline,
    /// A hold whose deadline has passed can be cancelled as long as its row does not say that it lapsed.
    CancelAfterDeadline,
    /// expiry-worker lapses a hold whose deadline has passed by its own clock alone.
    LapsedByOwnClock,
    /// `HOLD_LAPSED` is answered when the deadline has passed by the process's own clock alone.
    RefusedByOwnClock,
    /// A payment confirms those of its coupons that are still held.
    PaymentInPart,
    /// A reread that finds a number taken blames the gate, although the landing was rolled back for another reason.
    RereadProvesNumberTaken,
    /// The unique key covers the numbers of returned coupons too.
    UniqueOverReturned,
    /// The audit for stock that a gate lacks ignores the movements between its two reads.
    AuditIgnoresReturns,
    /// The keeper judges a gate that contains a movement which MySQL does not show yet.
    KeeperJudgesTheUnseen,
    /// A lift is sent to the gate without a movement's number.
    LiftWithoutSeq,
    /// An api refuses from memory after a scan, without comparing the number of users with the gate's.
    ScanNotProved,
    /// A look allows refusals for a time that begins with its answer, not when it is sent.
    LeaseFromTheLooksEnd,
    /// The look does not compare the epoch of the scan.
    LookWithoutEpoch,
    /// The look does not compare the run of Redis.
    LookWithoutRun,
    /// A claim is answered 201 while another api may still refuse its user from memory.
    AnswerBeforeRefusalsEnd,
    /// A stored answer that is found after a refusal is given while another api may still refuse its user from memory.
    StoredAnswerBeforeRefusalsEnd,
    /// A master of the gate still answers after its replica was promoted: Redis without `min-replicas-to-write`.
    OldMasterAnswers,
    /// The keeper accepts a gate that is above MySQL's epoch, or of a history that MySQL has lost.
    GateAboveAccepted,
    /// The first raise at another server of MySQL is as high as any other.
    RaiseWithoutLeap,
    /// `begin.lua`, `load.lua` and `open.lua` compare the epoch, but not the server that gave it.
    ServersShareAnEpoch,
    /// The keeper does not compare the landings that the gate knows with MySQL's rows.
    LostLandingAccepted,
    /// A queued claim of a higher epoch than MySQL's is called too late, though MySQL may have lost the raise.
    HigherQueuedEpochTooLate,
    /// `open.lua` does not note that apis may still refuse because of looks at the gate before it.
    RebuildNotesNothing,
    /// A process makes ids under a number without waiting until its clock has passed the last id of the one before.
    LastIdNotWaitedFor,
    /// A process takes a number without writing up to when it may make ids.
    RangeNotRecorded,
    /// A renewed lease is used at once, although a failover may still lose its range.
    YoungRangeUsed,
    /// A clock that is behind is corrected, and the range with it, beyond what MySQL's row is sure to say.
    CorrectedBeyondTheRange,
    /// A process gives its number back and makes further ids.
    NumberGivenBackInUse,
    /// A failover forgets that the number was taken. Not a mistake of the code: what a lossy failover costs, and why a
    /// number is chosen at random.
    TakingLost,
    /// A new epoch of the gate forgets a pause that was made there.
    BeginForgetsHalt,
    /// A pause at the gate is lifted there before MySQL has it.
    HaltLiftedBeforeItsRecord,
    /// A pause at the gate is lifted there before the gate knows MySQL's state.
    HaltLiftedUntold,
    /// A pause at the gate is carried over again by a process that found it before it was lifted.
    HaltRecordedTwice,
    /// A resume does not carry over a pause at the gate first.
    ResumeBeforeHalt,
    /// A reconciler reads MySQL before it reads the gate for the first time.
    LookReadsMySqlFirst,
    /// A reconciler compares MySQL with the gate as it was before MySQL was read, in both directions.
    LookReadsGateOnce,
    /// A reconciler ignores the movements between its reads.
    LookIgnoresMovements,
    /// A reconciler takes the numbers of requests that may still land for leaked ones.
    LookIgnoresPending,
    /// A reconciler judges a gate that contains a movement which MySQL does not show yet.
    LookJudgesTheUnseen,
    /// A reconciler judges a gate of an earlier run of Redis.
    LookIgnoresRun,
    /// A reconciler reads the user's entry and what is in flight in two commands.
    InFlightReadApart,
    /// A reconciler leaves requests that may still land alone without looking whether they are in flight or queued.
    PendingTrusted,
    /// The rebuild of a gate that a reconciler marked raises the epoch whatever it is by now.
    RaiseUnconditional,
    /// A reconciler fences a queued request.
    ReconcilerFencesQueued,
    /// A repair of the ledger writes the stock that its dry run showed.
    RepairAbsolute,
    /// A repair of the ledger does not compare the state of its finding and the drift of its digest.
    RepairTwice,
}
