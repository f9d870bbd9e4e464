//! The planted mistakes of the claim protocol. Each names the promise that it breaks, and the smallest known bounds in
//! which it does.

use super::{Attempt, Bounds, Change, LateKind, Promise, attempt};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OWN: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 1, 1);

const RESOLVED: Bounds = Bounds { resolvers: 1, ..Bounds::CALM };
const REBUILT: Bounds = Bounds { rebuilders: 1, rebuilds: 1, ..Bounds::CALM };

/// A mistake, the promise that it breaks, and the bounds; these do not contain the mistake yet.
pub type Planted = (Bug, Promise, Bounds);

/// Every planted mistake of the claim protocol.
pub const PLANTED: &[Planted] = &[
    (
        Bug::FenceOnClientsKey,
        Promise::GateAccountsForStock,
        Bounds { attempts: &[ONE, ONE], crashes: 1, ..RESOLVED },
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
        Bounds { attempts: &[ONE, OTHER, ONE], losses: 1, rebuilders: 2, rebuilds: 2, ..REBUILT },
    ),
    (
        Bug::RebuildWithoutBegin,
        Promise::NothingLandedWhenRefused,
        Bounds { attempts: &[ONE, OTHER, ONE], losses: 1, rebuilders: 2, rebuilds: 2, ..REBUILT },
    ),
    (
        Bug::OpenFromAnyLoading,
        Promise::GateAccountsForNumbers,
        Bounds { attempts: &[ONE], rebuilders: 2, rebuilds: 2, ..REBUILT },
    ),
    (Bug::KeeperIgnoresEpoch, Promise::FinalAnswerInTheEnd, Bounds { crashes: 1, ..REBUILT }),
    (
        Bug::ClaimWithoutEpoch,
        Promise::GateAccountsForStock,
        Bounds { limit: 2, total: 2, late: 1, late_kinds: &[LateKind::Claim], ..REBUILT },
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
            late: 1,
            late_kinds: &[LateKind::SetState],
            ..Bounds::CALM
        },
    ),
    (
        Bug::KeeperIgnoresVersion,
        Promise::QuietGateKnowsItsState,
        Bounds { changes: &[Change::Pause], crashes: 1, ..Bounds::CALM },
    ),
    (Bug::RunNotCompared, Promise::GateAccountsForStock, Bounds { rewinds: 1, ..Bounds::CALM }),
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
            late: 1,
            late_kinds: &[LateKind::Landing],
            ..Bounds::CALM
        },
    ),
    (Bug::ResolverDecidesBySelect, Promise::GateAccountsForStock, RESOLVED),
    (Bug::GuardWithoutEpoch, Promise::GateAccountsForStock, REBUILT),
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
            late: 1,
            late_kinds: &[LateKind::Claim],
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
        Bounds { changes: &[Change::Move(1), Change::Move(1)], crashes: 1, ..Bounds::CALM },
    ),
    (
        Bug::MovementLostWhileLoading,
        Promise::QuietGateIsMySqls,
        Bounds { changes: &[Change::Move(1)], ..REBUILT },
    ),
    (
        Bug::KeeperIgnoresMovement,
        Promise::QuietGateIsMySqls,
        Bounds { changes: &[Change::Move(1)], crashes: 1, ..REBUILT },
    ),
    (
        Bug::KeeperIgnoresMovementsInStock,
        Promise::NoNeedlessEpoch,
        Bounds { changes: &[Change::Move(1)], looks: 1, ..Bounds::CALM },
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
