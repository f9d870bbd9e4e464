//! The planted mistakes of queued claims. Each names the promise that it breaks, and the smallest known bounds in which
//! it does.

use coupon::{AcceptAfter, ClaimMode};

use super::{
    super::{Attempt, Bounds, Change, Left, Promise, attempt},
    Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OTHER: Attempt = attempt(1, 1, 1);

const NONE: Left = Left::NONE;
const REBUILT: Left = Left { rebuilds: 1, ..NONE };
const RELAYED: Left = Left { reads: 1, ..NONE };
const AT_GATE: Bounds = Bounds { accept_after: AcceptAfter::Gate, ..Bounds::QUEUED };
const AT_REPLICA: Bounds = Bounds { accept_after: AcceptAfter::Replica, ..Bounds::QUEUED };

/// A claim is rejected because of a cut, and its key may be sent again after a top-up.
const CUT: Bounds = Bounds {
    attempts: &[ONE, ONE],
    changes: &[Change::Move(-1), Change::Move(1)],
    ..Bounds::QUEUED
};

/// A user whose entry says to look sends a key twice, and one of the two is rejected because of a cut.
const LOOKED: Bounds = Bounds {
    attempts: &[attempt(0, 2, 1), ONE, ONE],
    limit: 2,
    total: 2,
    left: Left { reads: 1, ..REBUILT },
    ..CUT
};

/// Every planted mistake of queued claims.
pub const PLANTED: &[Planted] = &[
    (
        Bug::OffsetBeforeCommit,
        Promise::AcceptedLands,
        Bounds { left: Left { crashes: 1, ..NONE }, ..Bounds::QUEUED },
    ),
    (
        Bug::TrimBeforeAck,
        Promise::AcceptedLands,
        Bounds { left: Left { crashes: 1, ..RELAYED }, ..AT_GATE },
    ),
    (
        Bug::TrimWithoutRun,
        Promise::AcceptedLands,
        Bounds {
            attempts: &[ONE, OTHER],
            total: 2,
            left: Left { rewinds: 1, rebuilds: 1, ..RELAYED },
            ..AT_GATE
        },
    ),
    (
        Bug::LeftoversNotRead,
        Promise::EveryReceiptEnds,
        Bounds { left: Left { crashes: 1, ..RELAYED }, ..AT_GATE },
    ),
    (Bug::GroupFromNow, Promise::EveryReceiptEnds, Bounds { left: RELAYED, ..AT_GATE }),
    (
        Bug::RelayRejects,
        Promise::AcceptedLands,
        Bounds { left: Left { refusals: 1, ..RELAYED }, ..Bounds::QUEUED },
    ),
    (
        Bug::NotConfirmed,
        Promise::AcceptedLands,
        Bounds { left: Left { losses: 1, ..REBUILT }, ..Bounds::QUEUED },
    ),
    (
        Bug::ReplayAccepted,
        Promise::AcceptedLands,
        Bounds {
            attempts: &[ONE, ONE],
            left: Left { losses: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        Bug::WaitOnAnotherConnection,
        Promise::AcceptedLands,
        Bounds { left: Left { rewinds: 1, ..NONE }, ..AT_REPLICA },
    ),
    (
        Bug::ReplayWithoutWrite,
        Promise::AcceptedLands,
        Bounds { attempts: &[ONE, ONE], left: Left { rewinds: 1, ..NONE }, ..AT_REPLICA },
    ),
    (Bug::QueuedWithoutLook, Promise::AcceptedLands, LOOKED),
    (Bug::QueuedBeforeLook, Promise::NothingTakenForAnAnsweredKey, CUT),
    (
        Bug::RejectedKeysNotLoaded,
        Promise::NothingTakenForAnAnsweredKey,
        Bounds { left: REBUILT, ..CUT },
    ),
    (
        Bug::LandedKeysNotLoaded,
        Promise::NothingTakenForAnAnsweredKey,
        Bounds { attempts: &[ONE, ONE], limit: 2, total: 2, left: REBUILT, ..Bounds::QUEUED },
    ),
    (
        Bug::BegunAgainAfterRead,
        Promise::AcceptedLands,
        Bounds { rebuilders: 2, left: Left { rebuilds: 2, losses: 1, ..NONE }, ..Bounds::QUEUED },
    ),
    (
        Bug::EpochNotAboveTheGates,
        Promise::ComesToRest,
        Bounds { left: Left { lies: 1, ..NONE }, ..Bounds::QUEUED },
    ),
    (Bug::OutboxNotEmptied, Promise::AcceptedLands, Bounds { left: REBUILT, ..AT_GATE }),
    (Bug::EndNotedBeforeBegin, Promise::AcceptedLands, Bounds { left: REBUILT, ..Bounds::QUEUED }),
    (
        Bug::ReadBeforeQueuedEpoch,
        Promise::GateAccountsForStock,
        Bounds { left: Left { losses: 1, ..REBUILT }, ..Bounds::QUEUED },
    ),
    (
        Bug::NeverQueuedAskedAtRaise,
        Promise::AcceptedLands,
        Bounds {
            mode: ClaimMode::Direct,
            changes: &[Change::Mode(ClaimMode::Queued)],
            left: REBUILT,
            ..Bounds::QUEUED
        },
    ),
    (
        Bug::QueuedGuardHasDirectEpoch,
        Promise::AcceptedLands,
        Bounds { left: REBUILT, ..Bounds::QUEUED },
    ),
    (
        Bug::LateRowOnKey,
        Promise::OneOutcome,
        Bounds { left: Left { losses: 1, ..REBUILT }, ..Bounds::QUEUED },
    ),
    (Bug::RejectedWithoutLock, Promise::RejectedForATrueReason, Bounds { attempts: &[ONE], ..CUT }),
    (
        Bug::RejectedWithoutEpoch,
        Promise::OneOutcome,
        Bounds {
            attempts: &[ONE],
            changes: &[Change::Move(-1)],
            left: Left { losses: 1, ..REBUILT },
            ..CUT
        },
    ),
    (
        Bug::NumberTakenRejected,
        Promise::RejectedForATrueReason,
        Bounds {
            attempts: &[ONE, attempt(0, 2, 1)],
            limit: 2,
            total: 2,
            left: Left { lies: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (Bug::ElsewhereWithoutFence, Promise::EveryReceiptEnds, LOOKED),
    (
        Bug::ForeignFenceBinds,
        Promise::EveryReceiptEnds,
        Bounds { left: Left { strangers: 1, ..NONE }, ..Bounds::QUEUED },
    ),
    (
        Bug::FenceWithoutEpoch,
        Promise::OneOutcome,
        Bounds { attempts: &[ONE, ONE], left: Left { losses: 1, ..REBUILT }, ..Bounds::QUEUED },
    ),
    (
        Bug::RejectionUnknownToDirect,
        Promise::FinalAnswerInTheEnd,
        Bounds {
            attempts: &[ONE],
            changes: &[Change::Move(-1), Change::Move(1), Change::Mode(ClaimMode::Direct)],
            ..CUT
        },
    ),
    (
        Bug::ResolverIgnoresQueued,
        Promise::QuietGateIsMySqls,
        Bounds { left: Left { deaf: 1, ..NONE }, ..Bounds::QUEUED },
    ),
    (Bug::ResolverFencesQueued, Promise::AcceptedLands, Bounds::QUEUED),
    (
        Bug::EndNotedBeforeOutbox,
        Promise::NoNeedlessEpoch,
        Bounds { left: Left { orphans: 1, ..NONE }, ..Bounds::QUEUED },
    ),
    (
        Bug::RowReadBeforeEpoch,
        Promise::OneOutcome,
        Bounds { left: Left { looks: 1, ..REBUILT }, ..Bounds::QUEUED },
    ),
    (
        Bug::EndedBeforeTheQueueIsClosed,
        Promise::NothingUnderWayWhenRefused,
        Bounds { attempts: &[ONE, ONE], changes: &[Change::End], left: REBUILT, ..Bounds::QUEUED },
    ),
    (
        Bug::ClosedWithoutBegin,
        Promise::AcceptedLands,
        Bounds { changes: &[Change::End], left: REBUILT, ..Bounds::QUEUED },
    ),
    (
        Bug::RefusingTakenForClosed,
        Promise::EveryReceiptEnds,
        Bounds { changes: &[Change::EndReject], left: Left { losses: 1, ..NONE }, ..AT_GATE },
    ),
];
