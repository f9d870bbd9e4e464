//! The planted mistakes of holds. Each names the promise that it breaks, and the smallest known bounds in which it
//! does.

use super::{Attempt, Bounds, By, Cancel, Change, LateKind, Left, Part, Payment, Promise, attempt};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const TWO: Attempt = attempt(0, 0, 2);
const OWN: Attempt = attempt(0, 1, 1);
const OTHER: Attempt = attempt(1, 3, 1);

const PAY: Payment = Payment { claim: 0, part: Part::All, reference: 0 };
const BY_USER: Cancel = Cancel { claim: 0, part: Part::All, by: By::User };
const SECOND_BY_USER: Cancel = Cancel { claim: 0, part: Part::Second, by: By::User };

const LAPSED: Bounds = Bounds { deadlines: 1, ..Bounds::CALM };
const REBUILDS: Left = Left { rebuilds: 1, ..Left::NONE };
const REBUILT: Bounds = Bounds { rebuilders: 1, left: REBUILDS, ..LAPSED };
const LOOKED: Bounds = Bounds { left: Left { looks: 1, ..Left::NONE }, ..LAPSED };
const LATE_CLAIM: Bounds = Bounds {
    attempts: &[ONE, OWN],
    total: 2,
    left: Left { late: 1, ..Left::NONE },
    late_kinds: &[LateKind::Claim],
    ..LAPSED
};

/// A mistake, the promise that it breaks, and the bounds; these do not contain the mistake yet.
pub type Planted = (Bug, Promise, Bounds);

/// Every planted mistake of holds.
pub const PLANTED: &[Planted] = &[
    (Bug::NumbersReadAfterStock, Promise::GateAccountsForNumbers, REBUILT),
    (Bug::NumbersNotFreedWhileLoading, Promise::GateAccountsForNumbers, REBUILT),
    (
        Bug::FirstMovementReadEarly,
        Promise::GateAccountsForNumbers,
        Bounds { attempts: &[ONE, OWN], ..REBUILT },
    ),
    (Bug::LapsesAsRead, Promise::GateAccountsForLapses, Bounds { lapses_allowed: 2, ..REBUILT }),
    (
        Bug::LapsesCountedAgain,
        Promise::GateAccountsForLapses,
        Bounds { lapses_allowed: 2, ..REBUILT },
    ),
    (
        Bug::ReturnedUsersNotLoaded,
        Promise::NothingLandedWhenRefused,
        Bounds { attempts: &[ONE, OTHER, ONE], ..REBUILT },
    ),
    (
        Bug::LapsedUsersNotLoaded,
        Promise::GateAccountsForLapses,
        Bounds { limit: 0, lapses_allowed: 1, ..REBUILT },
    ),
    (
        Bug::ReturnAppliedTwice,
        Promise::GateAccountsForStock,
        Bounds { cancels: &[BY_USER], ..Bounds::CALM },
    ),
    (
        Bug::ReturnGapIgnored,
        Promise::GateAccountsForStock,
        Bounds { attempts: &[ONE, OTHER], total: 2, cancels: &[BY_USER], ..LAPSED },
    ),
    (
        Bug::NumbersFreedAgain,
        Promise::GateAccountsForNumbers,
        Bounds { attempts: &[ONE, OWN], cancels: &[BY_USER], ..Bounds::CALM },
    ),
    (Bug::ReturnRemovesRequest, Promise::GateAccountsForStock, LATE_CLAIM),
    (
        Bug::LapsesNeedAnEntry,
        Promise::GateAccountsForLapses,
        Bounds { limit: 0, lapses_allowed: 1, ..REBUILT },
    ),
    (
        Bug::LimitedTrimWithoutFloor,
        Promise::GateAccountsForStock,
        Bounds { deadlines: 2, ..LATE_CLAIM },
    ),
    (
        Bug::BanBeforeReplay,
        Promise::NothingLandedWhenRefused,
        Bounds { attempts: &[ONE, ONE], lapses_allowed: 1, ..LAPSED },
    ),
    (
        Bug::BanWithoutLook,
        Promise::NothingLandedWhenRefused,
        Bounds { attempts: &[ONE, ONE], lapses_allowed: 1, ..REBUILT },
    ),
    (
        Bug::OwnMessageDropped,
        Promise::ConsumedIsContained,
        Bounds { attempts: &[ONE, OWN], total: 2, limit: 2, deadlines: 2, hidden: true, ..REBUILT },
    ),
    (Bug::ReturnWithoutCompare, Promise::HeldEndsOnce, Bounds { lapsers: 2, ..LAPSED }),
    (
        Bug::StockCountsWhatWasRead,
        Promise::StockIsTotalLessLive,
        Bounds {
            attempts: &[TWO],
            limit: 2,
            total: 2,
            cancels: &[BY_USER, SECOND_BY_USER],
            ..LAPSED
        },
    ),
    (
        Bug::ConfirmWithoutCompare,
        Promise::HeldEndsOnce,
        Bounds { payments: &[PAY], cancels: &[BY_USER], ..Bounds::CALM },
    ),
    (
        Bug::ConfirmAfterDeadline,
        Promise::LapsesAtItsDeadline,
        Bounds { payments: &[PAY], ..LAPSED },
    ),
    (
        Bug::CancelAfterDeadline,
        Promise::LapsesAtItsDeadline,
        Bounds { cancels: &[BY_USER], ..LAPSED },
    ),
    (Bug::LapsedByOwnClock, Promise::LapsesAtItsDeadline, LAPSED),
    (
        Bug::RefusedByOwnClock,
        Promise::PaymentHasOneAnswer,
        Bounds { payments: &[PAY, PAY], ..LAPSED },
    ),
    (
        Bug::PaymentInPart,
        Promise::PaidIsConfirmed,
        Bounds {
            attempts: &[TWO],
            limit: 2,
            total: 2,
            payments: &[PAY],
            cancels: &[SECOND_BY_USER],
            ..Bounds::CALM
        },
    ),
    (
        Bug::RereadProvesNumberTaken,
        Promise::NoNeedlessEpoch,
        Bounds {
            attempts: &[ONE, OWN],
            hidden: true,
            left: Left { rollbacks: 1, ..Left::NONE },
            ..LAPSED
        },
    ),
    (Bug::UniqueOverReturned, Promise::NoNeedlessEpoch, Bounds { attempts: &[ONE, OWN], ..LAPSED }),
    (Bug::KeeperIgnoresReturns, Promise::NoNeedlessEpoch, LOOKED),
    (Bug::AuditIgnoresReturns, Promise::MissingOnlyIfItIs, LOOKED),
    (Bug::KeeperJudgesTheUnseen, Promise::NoNeedlessEpoch, Bounds { hidden: true, ..LOOKED }),
    (Bug::KeeperLeavesMovements, Promise::QuietGateIsMySqls, Bounds { hidden: true, ..REBUILT }),
    (
        Bug::LiftWithoutSeq,
        Promise::QuietGateIsMySqls,
        Bounds { lapses_allowed: 1, changes: &[Change::Lift(0)], ..LAPSED },
    ),
];
