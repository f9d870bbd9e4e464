//! Bounds of queued claims: small ones for every test run, and larger ones for a soak.

use coupon::{AcceptAfter, ClaimMode};

use super::{
    super::{Attempt, Bounds, Change, attempt},
    Configuration,
};

const ONE: Attempt = attempt(0, 0, 1);
const OWN: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 1, 1);
const THIRD: Attempt = attempt(2, 3, 1);

const TWO: Bounds = Bounds::QUEUED.attempts(&[ONE, OTHER]);
const SAME: Bounds = Bounds::QUEUED.attempts(&[ONE, ONE]);
const CUT: &[Change] = &[Change::Move(-1), Change::Move(1)];

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = configurations! {
    "Redis forgets, a crash, a rebuild" => TWO.rebuilds(1).crashes(1).losses(1).reads(1);
    "the same key twice; Redis forgets, a crash, a rebuild" => SAME.rebuilds(1).crashes(1).losses(1).reads(1);
    "Redis goes back in time, two relays, a rebuild" => TWO.relays(2).rebuilds(1).rewinds(1).reads(2);
    "Redis forgets, two rebuilders, a crash" => TWO.rebuilders(2).rebuilds(2).crashes(1).losses(1);
    "two landers, the gate is deaf, a crash, a rebuild" => TWO.landers(2).rebuilds(1).crashes(1).deaf(1);
    "a cut and a top-up, the same key twice, two landers, a rebuild" =>
        SAME.changes(CUT).landers(2).rebuilds(1);
    "a cut and a top-up, Redis forgets, a crash, a rebuild" =>
        SAME.changes(CUT).rebuilds(1).crashes(1).losses(1);
    "a cut, Redis goes back in time, a rebuild" =>
        TWO.changes(&[Change::Move(-1)]).rebuilds(1).rewinds(1).reads(1);
    "direct, queued, direct; the same key twice and another user, a crash, a rebuild" =>
        Bounds::QUEUED.mode(ClaimMode::Direct).attempts(&[ONE, ONE, OTHER])
            .changes(&[Change::Mode(ClaimMode::Queued), Change::Mode(ClaimMode::Direct)]).rebuilds(1)
            .crashes(1);
    "spill, the same key twice and another user; a crash, Redis forgets, a rebuild" =>
        Bounds::QUEUED.mode(ClaimMode::Spill).attempts(&[ONE, ONE, OTHER]).rebuilds(1).crashes(1).losses(1);
    "spill, two keys of one user; the gate lies, a rebuild" =>
        Bounds::QUEUED.mode(ClaimMode::Spill).attempts(&[ONE, OWN]).limit_of(2, 2).rebuilds(1).crashes(1)
            .lies(1);
    "two keys of one user, limit 1; Redis forgets, a crash, a rebuild" =>
        Bounds::QUEUED.attempts(&[ONE, OWN]).total(2).rebuilds(1).crashes(1).losses(1).reads(1);
    "pause, resume; Redis forgets, a crash, a rebuild" =>
        SAME.changes(&[Change::Pause, Change::Resume]).rebuilds(1).crashes(1).losses(1);
    "a pause that rejects, resume; two landers, the same key twice, a rebuild" =>
        SAME.changes(&[Change::PauseReject, Change::Resume]).landers(2).rebuilds(1);
    "the end; Redis forgets, a crash, a rebuild" =>
        SAME.changes(&[Change::End]).rebuilds(1).crashes(1).losses(1);
    "the end that rejects; Redis goes back in time, a rebuild" =>
        Bounds::QUEUED.changes(&[Change::EndReject]).rebuilds(1).rewinds(1).reads(1);
    "the client looks twice; Redis forgets, a crash, a rebuild" =>
        SAME.rebuilds(1).crashes(1).losses(1).looks(2);
    "lookups under another template; a cut, the same key twice, a crash, a rebuild" =>
        SAME.changes(&[Change::Move(-1)]).rebuilds(1).crashes(1).looks(1).strangers(2);
    "spill; lookups under another template, Redis forgets, a crash, a rebuild" =>
        TWO.mode(ClaimMode::Spill).rebuilds(1).crashes(1).losses(1).strangers(2);
    "an entry that the broker refuses; a queued request that nobody carries, a rebuild" =>
        SAME.rebuilds(1).crashes(1).reads(2).refusals(1);
    "after the gate: two relays, two crashes, a rebuild, an orphan" =>
        TWO.accept_after(AcceptAfter::Gate).relays(2).rebuilds(1).crashes(2).reads(3).orphans(1);
    "after the gate: the broker refuses, Redis forgets, an orphan, a rebuild" =>
        SAME.accept_after(AcceptAfter::Gate).rebuilds(1).losses(1).reads(2).refusals(1).orphans(1);
    "after the gate: Redis goes back in time, two relays, a rebuild" =>
        TWO.accept_after(AcceptAfter::Gate).relays(2).rebuilds(1).rewinds(1).reads(3);
    "after a replica: it takes over, a crash, a rebuild" =>
        TWO.accept_after(AcceptAfter::Replica).rebuilds(1).crashes(1).rewinds(1).reads(2);
    "after a replica: the same key twice, two take over, two rebuilds" =>
        SAME.accept_after(AcceptAfter::Replica).rebuilds(2).rewinds(2).reads(1);
};

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = configurations! {
    "three users; Redis forgets, a crash, two rebuilders" =>
        Bounds::QUEUED.attempts(&[ONE, OTHER, THIRD]).total(2).rebuilders(2).rebuilds(2).crashes(1).losses(1);
    "four claims, two landers, a crash, a rebuild" =>
        Bounds::QUEUED.attempts(&[ONE, ONE, OTHER, THIRD]).total(2).landers(2).rebuilds(1).crashes(1);
    "four claims; the end, Redis forgets, a crash, a rebuild" =>
        Bounds::QUEUED.attempts(&[ONE, ONE, OTHER, THIRD]).total(2).changes(&[Change::End]).rebuilds(1)
            .crashes(1).losses(1);
    "Redis goes back in time, two relays, a crash, a rebuild" =>
        Bounds::QUEUED.attempts(&[ONE, ONE, OTHER]).relays(2).rebuilds(1).crashes(1).rewinds(1).reads(2);
    "two cuts and a top-up, a crash, Redis forgets, a rebuild" =>
        Bounds::QUEUED.attempts(&[ONE, OTHER]).total(2)
            .changes(&[Change::Move(-1), Change::Move(-1), Change::Move(1)]).rebuilds(1).crashes(1).losses(1);
    "spill, four claims of two users; the gate is deaf, a crash, Redis forgets, a rebuild" =>
        Bounds::QUEUED.mode(ClaimMode::Spill).attempts(&[ONE, ONE, OTHER, OTHER]).rebuilds(1).crashes(1)
            .losses(1).reads(1).deaf(1);
    "direct, queued, spill; two rebuilders, a crash, Redis forgets" =>
        Bounds::QUEUED.mode(ClaimMode::Direct).attempts(&[ONE, ONE, OTHER])
            .changes(&[Change::Mode(ClaimMode::Queued), Change::Mode(ClaimMode::Spill)]).rebuilders(2)
            .rebuilds(2).crashes(1).losses(1);
    "pauses that reject and that do not; a crash, a look, a rebuild" =>
        Bounds::QUEUED.attempts(&[ONE, ONE, OTHER])
            .changes(&[Change::PauseReject, Change::Resume, Change::Pause]).rebuilds(1).crashes(1).looks(1);
    "after the gate: the broker refuses, two relays, two crashes, an orphan, two rebuilders" =>
        Bounds::QUEUED.accept_after(AcceptAfter::Gate).attempts(&[ONE, ONE, OTHER]).relays(2).rebuilders(2)
            .rebuilds(2).crashes(2).reads(3).refusals(1).orphans(1);
    "after a replica: two take over, a crash, two rebuilders" =>
        Bounds::QUEUED.accept_after(AcceptAfter::Replica).attempts(&[ONE, OTHER]).rebuilders(2).rebuilds(2)
            .crashes(1).rewinds(2).reads(2);
};
