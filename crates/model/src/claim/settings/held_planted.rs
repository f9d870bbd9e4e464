//! The planted mistakes of holds. Each names the promise that it breaks, and the smallest known bounds in which it
//! does.

use super::{
    super::{Attempt, Bounds, By, Cancel, Change, LateKind, Left, Part, Payment, Promise, attempt},
    Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const TWO: Attempt = attempt(0, 0, 2);
const OWN: Attempt = attempt(0, 1, 1);
const OTHER: Attempt = attempt(1, 3, 1);

const PAY: Payment = Payment { claim: 0, part: Part::All, reference: 0 };
const BY_USER: Cancel = Cancel { claim: 0, part: Part::All, by: By::User };
const SECOND_BY_USER: Cancel = Cancel { claim: 0, part: Part::Second, by: By::User };

const LAPSES: Left = Left { deadlines: 1, ..Left::NONE };
const LAPSED: Bounds = Bounds { left: LAPSES, ..Bounds::HELD };
const REBUILT: Bounds = Bounds { rebuilders: 1, left: Left { rebuilds: 1, ..LAPSES }, ..LAPSED };
const LOOKED: Bounds = Bounds { left: Left { checks: 1, ..LAPSES }, ..LAPSED };
const LATE_CLAIM: Bounds = Bounds {
    attempts: &[ONE, OWN],
    total: 2,
    left: Left { late: 1, ..LAPSES },
    late_kinds: &[LateKind::Claim],
    ..LAPSED
};

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
        Bug::MovementTwice,
        Promise::GateAccountsForStock,
        Bounds { cancels: &[BY_USER], ..Bounds::HELD },
    ),
    (
        Bug::MovementGapIgnored,
        Promise::GateAccountsForStock,
        Bounds { attempts: &[ONE, OTHER], total: 2, cancels: &[BY_USER], ..LAPSED },
    ),
    (
        Bug::NumbersFreedAgain,
        Promise::GateAccountsForNumbers,
        Bounds { attempts: &[ONE, OWN], cancels: &[BY_USER], ..Bounds::HELD },
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
        Bounds { left: Left { deadlines: 2, ..LATE_CLAIM.left }, ..LATE_CLAIM },
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
        Bounds {
            attempts: &[ONE, OWN],
            total: 2,
            limit: 2,
            hidden: true,
            left: Left { deadlines: 2, ..REBUILT.left },
            ..REBUILT
        },
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
        Bounds { payments: &[PAY], cancels: &[BY_USER], ..Bounds::HELD },
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
            ..Bounds::HELD
        },
    ),
    (
        Bug::RereadProvesNumberTaken,
        Promise::NoNeedlessEpoch,
        Bounds {
            attempts: &[ONE, OWN],
            hidden: true,
            left: Left { rollbacks: 1, ..LAPSES },
            ..LAPSED
        },
    ),
    (Bug::UniqueOverReturned, Promise::NoNeedlessEpoch, Bounds { attempts: &[ONE, OWN], ..LAPSED }),
    (Bug::KeeperIgnoresMovementsInStock, Promise::NoNeedlessEpoch, LOOKED),
    (Bug::AuditIgnoresReturns, Promise::MissingOnlyIfItIs, LOOKED),
    (Bug::KeeperJudgesTheUnseen, Promise::NoNeedlessEpoch, Bounds { hidden: true, ..LOOKED }),
    (Bug::KeeperIgnoresMovement, Promise::QuietGateIsMySqls, Bounds { hidden: true, ..REBUILT }),
    (
        Bug::LiftWithoutSeq,
        Promise::QuietGateIsMySqls,
        Bounds { lapses_allowed: 1, changes: &[Change::Lift(0)], ..LAPSED },
    ),
];
