//! The planted mistakes of holds. Each names the promise that it breaks, and the smallest known bounds in which it
//! does.

use super::{
    super::{Attempt, Bounds, By, Cancel, Change, LateKind, Part, Payment, Promise, attempt},
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

const LAPSED: Bounds = Bounds::HELD.deadlines(1);
const REBUILT: Bounds = LAPSED.rebuilders(1).rebuilds(1);
const LOOKED: Bounds = LAPSED.checks(1);
const LATE_CLAIM: Bounds = LAPSED.attempts(&[ONE, OWN]).total(2).late(&[LateKind::Claim]);

/// Every planted mistake of holds.
pub const PLANTED: &[Planted] = planted! {
    NumbersReadAfterStock: GateAccountsForNumbers => REBUILT;
    NumbersNotFreedWhileLoading: GateAccountsForNumbers => REBUILT;
    FirstMovementReadEarly: GateAccountsForNumbers => REBUILT.attempts(&[ONE, OWN]);
    LapsesAsRead: GateAccountsForLapses => REBUILT.lapses_allowed(2);
    LapsesCountedAgain: GateAccountsForLapses => REBUILT.lapses_allowed(2);
    ReturnedUsersNotLoaded: NothingLandedWhenRefused => REBUILT.attempts(&[ONE, OTHER, ONE]);
    LapsedUsersNotLoaded: GateAccountsForLapses => REBUILT.limit(0).lapses_allowed(1);
    MovementTwice: GateAccountsForStock => Bounds::HELD.cancels(&[BY_USER]);
    MovementGapIgnored: GateAccountsForStock => LAPSED.attempts(&[ONE, OTHER]).total(2).cancels(&[BY_USER]);
    NumbersFreedAgain: GateAccountsForNumbers => Bounds::HELD.attempts(&[ONE, OWN]).cancels(&[BY_USER]);
    ReturnRemovesRequest: GateAccountsForStock => LATE_CLAIM;
    LapsesNeedAnEntry: GateAccountsForLapses => REBUILT.limit(0).lapses_allowed(1);
    LimitedTrimWithoutFloor: GateAccountsForStock => LATE_CLAIM.deadlines(2);
    BanBeforeReplay: NothingLandedWhenRefused => LAPSED.attempts(&[ONE, ONE]).lapses_allowed(1);
    BanWithoutLook: NothingLandedWhenRefused => REBUILT.attempts(&[ONE, ONE]).lapses_allowed(1);
    OwnMessageDropped: ConsumedIsContained =>
        REBUILT.attempts(&[ONE, OWN]).total(2).limit(2).hidden().deadlines(2);
    ReturnWithoutCompare: HeldEndsOnce => LAPSED.lapsers(2);
    StockCountsWhatWasRead: StockIsTotalLessLive =>
        LAPSED.attempts(&[TWO]).limit_of(2, 2).cancels(&[BY_USER, SECOND_BY_USER]);
    ConfirmWithoutCompare: HeldEndsOnce => Bounds::HELD.payments(&[PAY]).cancels(&[BY_USER]);
    ConfirmAfterDeadline: LapsesAtItsDeadline => LAPSED.payments(&[PAY]);
    CancelAfterDeadline: LapsesAtItsDeadline => LAPSED.cancels(&[BY_USER]);
    LapsedByOwnClock: LapsesAtItsDeadline => LAPSED;
    RefusedByOwnClock: PaymentHasOneAnswer => LAPSED.payments(&[PAY, PAY]);
    PaymentInPart: PaidIsConfirmed =>
        Bounds::HELD.attempts(&[TWO]).limit_of(2, 2).payments(&[PAY]).cancels(&[SECOND_BY_USER]);
    RereadProvesNumberTaken: NoNeedlessEpoch => LAPSED.attempts(&[ONE, OWN]).hidden().rollbacks(1);
    UniqueOverReturned: NoNeedlessEpoch => LAPSED.attempts(&[ONE, OWN]);
    KeeperIgnoresMovementsInStock: NoNeedlessEpoch => LOOKED;
    AuditIgnoresReturns: MissingOnlyIfItIs => LOOKED;
    KeeperJudgesTheUnseen: NoNeedlessEpoch => LOOKED.hidden();
    KeeperIgnoresMovement: QuietGateIsMySqls => REBUILT.hidden();
    LiftWithoutSeq: QuietGateIsMySqls => LAPSED.lapses_allowed(1).changes(&[Change::Lift(0)]);
};
