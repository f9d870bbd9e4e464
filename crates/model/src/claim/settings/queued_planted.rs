//! The planted mistakes of queued claims. Each names the promise that it breaks, and the smallest known bounds in which
//! it does.

use coupon::{AcceptAfter, ClaimMode};

use super::{
    super::{Attempt, Bounds, Change, Promise, attempt},
    Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OTHER: Attempt = attempt(1, 1, 1);

const AT_GATE: Bounds = Bounds::QUEUED.accept_after(AcceptAfter::Gate);
const AT_REPLICA: Bounds = Bounds::QUEUED.accept_after(AcceptAfter::Replica);

/// A claim is rejected because of a cut, and its key may be sent again after a top-up.
const CUT: Bounds =
    Bounds::QUEUED.attempts(&[ONE, ONE]).changes(&[Change::Move(-1), Change::Move(1)]);

/// A user whose entry says to look sends a key twice, and one of the two is rejected because of a cut.
const LOOKED: Bounds =
    CUT.attempts(&[attempt(0, 2, 1), ONE, ONE]).limit_of(2, 2).rebuilds(1).reads(1);

/// Every planted mistake of queued claims.
pub const PLANTED: &[Planted] = planted! {
    OffsetBeforeCommit: AcceptedLands => Bounds::QUEUED.crashes(1);
    TrimBeforeAck: AcceptedLands => AT_GATE.crashes(1).reads(1);
    TrimWithoutRun: AcceptedLands => AT_GATE.attempts(&[ONE, OTHER]).total(2).rebuilds(1).rewinds(1).reads(1);
    LeftoversNotRead: EveryReceiptEnds => AT_GATE.crashes(1).reads(1);
    GroupFromNow: EveryReceiptEnds => AT_GATE.reads(1);
    RelayRejects: AcceptedLands => Bounds::QUEUED.reads(1).refusals(1);
    NotConfirmed: AcceptedLands => Bounds::QUEUED.rebuilds(1).losses(1);
    ReplayAccepted: AcceptedLands => Bounds::QUEUED.attempts(&[ONE, ONE]).crashes(1).losses(1);
    WaitOnAnotherConnection: AcceptedLands => AT_REPLICA.rewinds(1);
    ReplayWithoutWrite: AcceptedLands => AT_REPLICA.attempts(&[ONE, ONE]).rewinds(1);
    QueuedWithoutLook: AcceptedLands => LOOKED;
    QueuedBeforeLook: NothingTakenForAnAnsweredKey => CUT;
    RejectedKeysNotLoaded: NothingTakenForAnAnsweredKey => CUT.rebuilds(1);
    LandedKeysNotLoaded: NothingTakenForAnAnsweredKey =>
        Bounds::QUEUED.attempts(&[ONE, ONE]).limit_of(2, 2).rebuilds(1);
    BegunAgainAfterRead: AcceptedLands => Bounds::QUEUED.rebuilders(2).rebuilds(2).losses(1);
    EpochNotAboveTheGates: ComesToRest => Bounds::QUEUED.lies(1);
    OutboxNotEmptied: AcceptedLands => AT_GATE.rebuilds(1);
    EndNotedBeforeBegin: AcceptedLands => Bounds::QUEUED.rebuilds(1);
    ReadBeforeQueuedEpoch: GateAccountsForStock => Bounds::QUEUED.rebuilds(1).losses(1);
    NeverQueuedAskedAtRaise: AcceptedLands =>
        Bounds::QUEUED.mode(ClaimMode::Direct).changes(&[Change::Mode(ClaimMode::Queued)]).rebuilds(1);
    QueuedGuardHasDirectEpoch: AcceptedLands => Bounds::QUEUED.rebuilds(1);
    LateRowOnKey: OneOutcome => Bounds::QUEUED.rebuilds(1).losses(1);
    RejectedWithoutLock: RejectedForATrueReason => CUT.attempts(&[ONE]);
    RejectedWithoutEpoch: OneOutcome =>
        CUT.attempts(&[ONE]).changes(&[Change::Move(-1)]).rebuilds(1).losses(1);
    NumberTakenRejected: RejectedForATrueReason =>
        Bounds::QUEUED.attempts(&[ONE, attempt(0, 2, 1)]).limit_of(2, 2).lies(1);
    ElsewhereWithoutFence: EveryReceiptEnds => LOOKED;
    ForeignFenceBinds: EveryReceiptEnds => Bounds::QUEUED.strangers(1);
    FenceWithoutEpoch: OneOutcome => Bounds::QUEUED.attempts(&[ONE, ONE]).rebuilds(1).losses(1);
    RejectionUnknownToDirect: FinalAnswerInTheEnd =>
        CUT.attempts(&[ONE]).changes(&[Change::Move(-1), Change::Move(1), Change::Mode(ClaimMode::Direct)]);
    ResolverIgnoresQueued: QuietGateIsMySqls => Bounds::QUEUED.deaf(1);
    ResolverFencesQueued: AcceptedLands => Bounds::QUEUED;
    EndNotedBeforeOutbox: NoNeedlessEpoch => Bounds::QUEUED.orphans(1);
    RowReadBeforeEpoch: OneOutcome => Bounds::QUEUED.rebuilds(1).looks(1);
    EndedBeforeTheQueueIsClosed: NothingUnderWayWhenRefused =>
        Bounds::QUEUED.attempts(&[ONE, ONE]).changes(&[Change::End]).rebuilds(1);
    ClosedWithoutBegin: AcceptedLands => Bounds::QUEUED.changes(&[Change::End]).rebuilds(1);
    RefusingTakenForClosed: EveryReceiptEnds => AT_GATE.changes(&[Change::EndReject]).losses(1);
};
