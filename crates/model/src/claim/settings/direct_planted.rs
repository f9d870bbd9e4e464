//! The planted mistakes of direct claims. Each names the promise that it breaks, and the smallest known bounds in
//! which it does.

use super::{
    super::{Attempt, Bounds, Change, LateKind, Promise, attempt},
    Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OWN: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 1, 1);

const RESOLVED: Bounds = Bounds::CALM.resolvers(1);
const REBUILT: Bounds = Bounds::CALM.rebuilders(1).rebuilds(1);

/// Every planted mistake of direct claims.
pub const PLANTED: &[Planted] = planted! {
    FenceOnClientsKey: GateAccountsForStock => RESOLVED.attempts(&[ONE, ONE]).crashes(1);
    RefusalWithoutLook: NothingLandedWhenRefused => REBUILT.attempts(&[ONE, ONE]);
    LimitlessRefusalWithoutLook: NothingLandedWhenRefused => REBUILT.attempts(&[ONE, ONE]).limit(0);
    RebuildWithoutEpochCheck: NothingLandedWhenRefused =>
        REBUILT.rebuilders(2).attempts(&[ONE, OTHER, ONE]).rebuilds(2).losses(1);
    RebuildWithoutBegin: NothingLandedWhenRefused =>
        REBUILT.rebuilders(2).attempts(&[ONE, OTHER, ONE]).rebuilds(2).losses(1);
    OpenFromAnyLoading: GateAccountsForNumbers => REBUILT.rebuilders(2).attempts(&[ONE]).rebuilds(2);
    KeeperIgnoresEpoch: FinalAnswerInTheEnd => REBUILT.crashes(1);
    ClaimWithoutEpoch: GateAccountsForStock => REBUILT.limit_of(2, 2).late(&[LateKind::Claim]);
    OpenOverwritesState: QuietGateKnowsItsState => REBUILT.changes(&[Change::Pause]);
    StateLostWhileLoading: QuietGateKnowsItsState => REBUILT.changes(&[Change::Pause]);
    StateWithoutVersion: QuietGateKnowsItsState =>
        Bounds::CALM.changes(&[Change::Pause, Change::Resume]).late(&[LateKind::SetState]);
    KeeperIgnoresVersion: QuietGateKnowsItsState => Bounds::CALM.changes(&[Change::Pause]).crashes(1);
    RunNotCompared: GateAccountsForStock => Bounds::CALM.rewinds(1);
    ClaimRowsReadFirst: NothingLandedWhenRefused =>
        RESOLVED.attempts(&[ONE, ONE]).limit(0).changes(&[Change::Pause, Change::Resume]).reread_in_steps();
    PipelinedCommit: NothingLandsAfterItsRefusal =>
        Bounds::CALM.changes(&[Change::Pause, Change::Resume]).late(&[LateKind::Landing]);
    ResolverDecidesBySelect: GateAccountsForStock => RESOLVED;
    GuardWithoutEpoch: GateAccountsForNumbers => REBUILT;
    GuardWithoutTerms: LandsUnderTheLastValidity => Bounds::CALM.changes(&[Change::Validity]);
    NotRenewed: FinalAnswerInTheEnd => Bounds::CALM.changes(&[Change::Validity]);
    CountInsteadOfNumbers: GateAccountsForNumbers => RESOLVED.attempts(&[ONE, OWN]).limit_of(3, 3);
    ReleaseNotIdempotent: GateAccountsForStock => RESOLVED.changes(&[Change::Pause]);
    RefusalBeforeReplay: NothingLandedWhenRefused => Bounds::CALM.attempts(&[ONE, ONE]);
    PendingDropped: GateAccountsForStock => Bounds::CALM.attempts(&[ONE, OWN]).limit_of(0, 2);
    DroppedAdmittedAgain: GateAccountsForStock =>
        Bounds::CALM.attempts(&[ONE, OWN]).limit_of(0, 3).late(&[LateKind::Claim]);
    EndedWithoutGateUnanswered: FinalAnswerInTheEnd => Bounds::CALM.changes(&[Change::End]);
    MovementTwice: GateAccountsForStock => Bounds::CALM.changes(&[Change::Move(1)]);
    MovementGapIgnored: GateAccountsForStock =>
        Bounds::CALM.changes(&[Change::Move(1), Change::Move(1)]).crashes(1);
    MovementLostWhileLoading: QuietGateIsMySqls => REBUILT.changes(&[Change::Move(1)]);
    KeeperIgnoresMovement: QuietGateIsMySqls => REBUILT.changes(&[Change::Move(1)]).crashes(1);
    KeeperIgnoresMovementsInStock: NoNeedlessEpoch => Bounds::CALM.changes(&[Change::Move(1)]).checks(1);
    StockAndMovementApart: GateAccountsForStock => REBUILT.changes(&[Change::Move(1)]);
    CutClampedAtZero: GateAccountsForStock => Bounds::CALM.changes(&[Change::Move(-1)]);
    CutTakenForDrift: NoNeedlessEpoch => Bounds::CALM.changes(&[Change::Move(-1)]);
};
