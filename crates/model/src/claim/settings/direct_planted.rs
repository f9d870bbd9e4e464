//! The planted mistakes of direct claims. Each names the promise that it breaks, and the smallest known bounds in
//! which it does.

use super::{
    super::{Attempt, Bounds, Change, LateKind, Left, Promise, attempt},
    Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OWN: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 1, 1);

const RESOLVED: Bounds = Bounds { resolvers: 1, ..Bounds::CALM };
const REBUILT: Bounds = Bounds { rebuilders: 1, left: REBUILDS, ..Bounds::CALM };
const REBUILDS: Left = Left { rebuilds: 1, ..Left::NONE };

/// Every planted mistake of direct claims.
pub const PLANTED: &[Planted] = &[
    (
        Bug::FenceOnClientsKey,
        Promise::GateAccountsForStock,
        Bounds { attempts: &[ONE, ONE], left: Left { crashes: 1, ..Left::NONE }, ..RESOLVED },
    ),
    (
        Bug::RefusalWithoutLook,
        Promise::NothingLandedWhenRefused,
        Bounds { attempts: &[ONE, ONE], ..REBUILT },
    ),
    (
        Bug::LimitlessRefusalWithoutLook,
        Promise::NothingLandedWhenRefused,
        Bounds { attempts: &[ONE, ONE], limit: 0, ..REBUILT },
    ),
    (
        Bug::RebuildWithoutEpochCheck,
        Promise::NothingLandedWhenRefused,
        Bounds {
            attempts: &[ONE, OTHER, ONE],
            rebuilders: 2,
            left: Left { losses: 1, rebuilds: 2, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        Bug::RebuildWithoutBegin,
        Promise::NothingLandedWhenRefused,
        Bounds {
            attempts: &[ONE, OTHER, ONE],
            rebuilders: 2,
            left: Left { losses: 1, rebuilds: 2, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        Bug::OpenFromAnyLoading,
        Promise::GateAccountsForNumbers,
        Bounds {
            attempts: &[ONE],
            rebuilders: 2,
            left: Left { rebuilds: 2, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        Bug::KeeperIgnoresEpoch,
        Promise::FinalAnswerInTheEnd,
        Bounds { left: Left { crashes: 1, ..REBUILDS }, ..REBUILT },
    ),
    (
        Bug::ClaimWithoutEpoch,
        Promise::GateAccountsForStock,
        Bounds {
            limit: 2,
            total: 2,
            late_kinds: &[LateKind::Claim],
            left: Left { late: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        Bug::OpenOverwritesState,
        Promise::QuietGateKnowsItsState,
        Bounds { changes: &[Change::Pause], ..REBUILT },
    ),
    (
        Bug::StateLostWhileLoading,
        Promise::QuietGateKnowsItsState,
        Bounds { changes: &[Change::Pause], ..REBUILT },
    ),
    (
        Bug::StateWithoutVersion,
        Promise::QuietGateKnowsItsState,
        Bounds {
            changes: &[Change::Pause, Change::Resume],
            late_kinds: &[LateKind::SetState],
            left: Left { late: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        Bug::KeeperIgnoresVersion,
        Promise::QuietGateKnowsItsState,
        Bounds {
            changes: &[Change::Pause],
            left: Left { crashes: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        Bug::RunNotCompared,
        Promise::GateAccountsForStock,
        Bounds { left: Left { rewinds: 1, ..Left::NONE }, ..Bounds::CALM },
    ),
    (
        Bug::ClaimRowsReadFirst,
        Promise::NothingLandedWhenRefused,
        Bounds {
            attempts: &[ONE, ONE],
            limit: 0,
            changes: &[Change::Pause, Change::Resume],
            reread_in_steps: true,
            ..RESOLVED
        },
    ),
    (
        Bug::PipelinedCommit,
        Promise::NothingLandsAfterItsRefusal,
        Bounds {
            changes: &[Change::Pause, Change::Resume],
            late_kinds: &[LateKind::Landing],
            left: Left { late: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (Bug::ResolverDecidesBySelect, Promise::GateAccountsForStock, RESOLVED),
    (Bug::GuardWithoutEpoch, Promise::GateAccountsForNumbers, REBUILT),
    (
        Bug::GuardWithoutTerms,
        Promise::LandsUnderTheLastValidity,
        Bounds { changes: &[Change::Validity], ..Bounds::CALM },
    ),
    (
        Bug::NotRenewed,
        Promise::FinalAnswerInTheEnd,
        Bounds { changes: &[Change::Validity], ..Bounds::CALM },
    ),
    (
        Bug::CountInsteadOfNumbers,
        Promise::GateAccountsForNumbers,
        Bounds { attempts: &[ONE, OWN], limit: 3, total: 3, ..RESOLVED },
    ),
    (
        Bug::ReleaseNotIdempotent,
        Promise::GateAccountsForStock,
        Bounds { changes: &[Change::Pause], ..RESOLVED },
    ),
    (
        Bug::RefusalBeforeReplay,
        Promise::NothingLandedWhenRefused,
        Bounds { attempts: &[ONE, ONE], ..Bounds::CALM },
    ),
    (
        Bug::PendingDropped,
        Promise::GateAccountsForStock,
        Bounds { attempts: &[ONE, OWN], limit: 0, total: 2, ..Bounds::CALM },
    ),
    (
        Bug::DroppedAdmittedAgain,
        Promise::GateAccountsForStock,
        Bounds {
            attempts: &[ONE, OWN],
            limit: 0,
            total: 3,
            late_kinds: &[LateKind::Claim],
            left: Left { late: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        Bug::EndedWithoutGateUnanswered,
        Promise::FinalAnswerInTheEnd,
        Bounds { changes: &[Change::End], ..Bounds::CALM },
    ),
    (
        Bug::MovementTwice,
        Promise::GateAccountsForStock,
        Bounds { changes: &[Change::Move(1)], ..Bounds::CALM },
    ),
    (
        Bug::MovementGapIgnored,
        Promise::GateAccountsForStock,
        Bounds {
            changes: &[Change::Move(1), Change::Move(1)],
            left: Left { crashes: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        Bug::MovementLostWhileLoading,
        Promise::QuietGateIsMySqls,
        Bounds { changes: &[Change::Move(1)], ..REBUILT },
    ),
    (
        Bug::KeeperIgnoresMovement,
        Promise::QuietGateIsMySqls,
        Bounds { changes: &[Change::Move(1)], left: Left { crashes: 1, ..REBUILDS }, ..REBUILT },
    ),
    (
        Bug::KeeperIgnoresMovementsInStock,
        Promise::NoNeedlessEpoch,
        Bounds {
            changes: &[Change::Move(1)],
            left: Left { checks: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        Bug::StockAndMovementApart,
        Promise::GateAccountsForStock,
        Bounds { changes: &[Change::Move(1)], ..REBUILT },
    ),
    (
        Bug::CutClampedAtZero,
        Promise::GateAccountsForStock,
        Bounds { changes: &[Change::Move(-1)], ..Bounds::CALM },
    ),
    (
        Bug::CutTakenForDrift,
        Promise::NoNeedlessEpoch,
        Bounds { changes: &[Change::Move(-1)], ..Bounds::CALM },
    ),
];
