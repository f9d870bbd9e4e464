//! Bounds of failovers of MySQL that lose commits, and their planted mistakes.

use coupon::AcceptAfter;

use super::{
    super::{Attempt, Bounds, Promise, attempt},
    Configuration, Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OTHER: Attempt = attempt(1, 1, 1);
const TWO: &[Attempt] = &[ONE, OTHER];

const DIRECT: Bounds = Bounds { resolvers: 1, rebuilders: 1, pauses: false, ..Bounds::CALM };
const AT_GATE: Bounds = Bounds::QUEUED.accept_after(AcceptAfter::Gate);
const HELD: Bounds = Bounds { rebuilders: 1, ..Bounds::HELD };

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = configurations! {
    "two users, a rebuild" => DIRECT.attempts(TWO).failovers(1).rebuilds(1);
    "the same key twice, a rebuild" => DIRECT.attempts(&[ONE, ONE]).failovers(1).rebuilds(1);
    "Redis forgets, a user, two rebuilds" => DIRECT.failovers(1).losses(1).rebuilds(2);
    "two primaries, two users" => DIRECT.attempts(TWO).two_primaries();
    "two primaries, a user, two rebuilders" => DIRECT.two_primaries().rebuilders(2).rebuilds(2);
    "queued: two users, a rebuild" => Bounds::QUEUED.attempts(TWO).failovers(1).rebuilds(1);
    "queued: after the gate, the same key twice, a crash, a rebuild" =>
        AT_GATE.attempts(&[ONE, ONE]).failovers(1).crashes(1).rebuilds(1).reads(2);
    "queued: two primaries, two users, a rebuild" => Bounds::QUEUED.attempts(TWO).two_primaries().rebuilds(1);
    "holds: a lapse, two users, a rebuild" => HELD.attempts(TWO).failovers(1).rebuilds(1).deadlines(1);
};

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = configurations! {
    "Redis forgets, two users, two rebuilds" => DIRECT.attempts(TWO).failovers(1).losses(1).rebuilds(2);
    "two primaries, two users, two rebuilders" =>
        DIRECT.attempts(TWO).two_primaries().rebuilders(2).rebuilds(2);
    "queued: two primaries, three claims, a crash, a rebuild" =>
        Bounds::QUEUED.attempts(&[ONE, ONE, OTHER]).two_primaries().crashes(1).rebuilds(1);
};

/// Every planted mistake about failovers.
pub const PLANTED: &[Planted] = planted! {
    EpochNotAboveTheGates: LostHistoryIsNotValid => DIRECT.failovers(1).rebuilds(2);
    GateAboveAccepted: FinalAnswerInTheEnd => DIRECT.failovers(1).rebuilds(1);
    RaiseWithoutLeap: GateAccountsForNumbers => DIRECT.failovers(1).losses(1).rebuilds(2);
    ServersShareAnEpoch: GateAccountsForStock => DIRECT.two_primaries().rebuilders(2).rebuilds(3);
    LostLandingAccepted: QuietGateIsMySqls => DIRECT.two_primaries().rebuilders(2).rebuilds(3);
    OldMasterAnswers: AcceptedLands => Bounds::QUEUED.rewinds(1).rebuilds(1);
    HigherQueuedEpochTooLate: AcceptedLands => Bounds::QUEUED.failovers(1).rebuilds(1);
};
