//! Bounds of direct claims: small ones for every test run, and larger ones for a soak.

use super::{
    super::{Attempt, Bounds, Change, LateKind, attempt},
    Configuration,
};

const ONE: Attempt = attempt(0, 0, 1);
const TWO: Attempt = attempt(0, 0, 2);
const OWN: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 1, 1);
const OTHER_TWO: Attempt = attempt(1, 1, 2);

const ALL_LATE: &[LateKind] = &[
    LateKind::Claim,
    LateKind::Settle,
    LateKind::Release,
    LateKind::Landing,
    LateKind::Move,
    LateKind::SetState,
];
const LATE_CALLS: &[LateKind] = &[LateKind::Claim, LateKind::Settle, LateKind::Release];

const PAUSE_RESUME: &[Change] = &[Change::Pause, Change::Resume];
const PAUSE_RESUME_PAUSE: &[Change] = &[Change::Pause, Change::Resume, Change::Pause];
const VALIDITY_TWICE: &[Change] =
    &[Change::Validity, Change::Pause, Change::Resume, Change::Validity];
const UP_AND_CUT: &[Change] = &[Change::Move(1), Change::Move(-1)];

/// One resolver and one rebuilder, as in most bounds.
const USUAL: Bounds = Bounds::CALM.resolvers(1).rebuilders(1).rebuilds(1);

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = configurations! {
    "three claims of two keys, two resolvers, a crash" =>
        Bounds::CALM.attempts(&[ONE, ONE, OTHER]).resolvers(2).crashes(1);
    "Redis forgets, a crash, a rebuild" => USUAL.attempts(&[ONE, ONE, OTHER]).crashes(1).losses(1);
    "Redis forgets, a crash, two rebuilders" =>
        USUAL.rebuilders(2).attempts(&[ONE, OTHER]).rebuilds(2).crashes(1).losses(1);
    "pause, resume, pause; Redis forgets, a rebuild" =>
        USUAL.attempts(&[ONE, ONE]).changes(PAUSE_RESUME_PAUSE).losses(1);
    "pause, resume; the reread in steps, a rebuild" =>
        USUAL.attempts(&[ONE, ONE]).changes(PAUSE_RESUME).reread_in_steps();
    "a late claim, settle or release; a rebuild" => USUAL.attempts(&[ONE, ONE, OTHER]).late(LATE_CALLS);
    "a late landing or state; pause, resume, a rebuild" =>
        USUAL.attempts(&[ONE, ONE]).changes(PAUSE_RESUME).late(&[LateKind::Landing, LateKind::SetState]);
    "quantities 2, 2, 1; Redis forgets, a crash, a rebuild" =>
        USUAL.attempts(&[TWO, TWO, OTHER]).limit_of(2, 2).crashes(1).losses(1);
    "the same key asks for less; a crash, a rebuild" =>
        USUAL.attempts(&[TWO, ONE, OTHER]).limit_of(2, 2).crashes(1);
    "two keys of one user and another user, a rebuild" => USUAL.attempts(&[ONE, OWN, OTHER]).limit_of(2, 2);
    "Redis goes back in time, a crash, a rebuild" => USUAL.attempts(&[ONE, ONE]).crashes(1).rewinds(1);
    "the gate lies about stock or numbers, a rebuild" => USUAL.attempts(&[ONE, OTHER]).limit_of(2, 2).lies(1);
    "a top-up and a cut, a crash, a rebuild" => USUAL.attempts(&[ONE, OTHER]).changes(UP_AND_CUT).crashes(1);
    "two cuts and a top-up, a late movement, Redis forgets, a rebuild" =>
        USUAL.resolvers(0).attempts(&[ONE]).total(2)
            .changes(&[Change::Move(-1), Change::Move(-1), Change::Move(1)]).late(&[LateKind::Move])
            .losses(1);
    "a pause and a top-up, Redis goes back in time, a rebuild" =>
        USUAL.attempts(&[ONE]).changes(&[Change::Pause, Change::Move(1), Change::Resume]).rewinds(1);
    "the end, the gate goes; a crash, a late claim, a rebuild" =>
        USUAL.attempts(&[ONE, ONE]).changes(&[Change::End]).late(&[LateKind::Claim]).crashes(1);
    "a top-up, a cut, the keeper looks twice; a crash, a rebuild" =>
        USUAL.attempts(&[ONE]).total(2).changes(UP_AND_CUT).crashes(1).checks(2);
    "validity, pause, resume, validity; a late landing, the reread in steps" =>
        Bounds::CALM.attempts(&[ONE, ONE]).changes(VALIDITY_TWICE).late(&[LateKind::Landing])
            .reread_in_steps().resolvers(1);
    "no limit: two keys of one user, Redis forgets, a crash, a rebuild" =>
        USUAL.attempts(&[ONE, ONE, OWN]).limit(0).crashes(1).losses(1);
    "no limit: three keys of one user, none but one remembered" =>
        Bounds::CALM.attempts(&[ONE, OWN, attempt(0, 3, 1), ONE]).limit_of(0, 2).resolvers(0).crashes(1);
    "no limit: two keys of one user, a late claim" =>
        Bounds::CALM.attempts(&[ONE, OWN, ONE]).limit_of(0, 3).late(&[LateKind::Claim]).resolvers(1);
};

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = configurations! {
    "four claims of two keys, two resolvers, a crash" =>
        Bounds::CALM.attempts(&[ONE, ONE, OTHER, OTHER]).resolvers(2).crashes(1);
    "Redis forgets, a crash, two rebuilders, three claims" =>
        USUAL.rebuilders(2).attempts(&[ONE, ONE, OTHER]).rebuilds(2).crashes(1).losses(1);
    "pause, resume, pause; Redis forgets, a crash, a rebuild" =>
        USUAL.attempts(&[ONE, ONE, OTHER]).limit(2).changes(PAUSE_RESUME_PAUSE).crashes(1).losses(1);
    "pause, resume, pause; the reread in steps, a rebuild" =>
        USUAL.attempts(&[ONE, ONE, OTHER]).changes(PAUSE_RESUME_PAUSE).reread_in_steps();
    "any late packet; pause, a top-up, a rebuild" =>
        USUAL.attempts(&[ONE, OTHER]).changes(&[Change::Pause, Change::Move(1)]).late(ALL_LATE);
    "a late claim, a crash, a rebuild, limit 2" =>
        USUAL.attempts(&[ONE, ONE, OTHER]).limit_of(2, 2).late(&[LateKind::Claim]).crashes(1);
    "a late landing; pause, resume, a crash, a rebuild" =>
        USUAL.attempts(&[ONE, ONE, OTHER]).changes(PAUSE_RESUME).late(&[LateKind::Landing]).crashes(1);
    "two keys of one user and another user, four claims, a rebuild" =>
        USUAL.attempts(&[ONE, ONE, OTHER, OWN]).limit_of(2, 2);
    "Redis goes back in time, a crash, a rebuild, three claims" =>
        USUAL.attempts(&[ONE, ONE, OTHER]).limit_of(2, 2).crashes(1).rewinds(1);
    "the gate lies; two rebuilds, a crash" =>
        USUAL.attempts(&[TWO, OTHER]).limit_of(2, 2).rebuilds(2).crashes(1).lies(1);
    "a top-up, a cut; a crash, Redis forgets, a rebuild" =>
        USUAL.attempts(&[ONE, OTHER]).changes(UP_AND_CUT).crashes(1).losses(1);
    "a cut below what is pending, a top-up, a late movement, a rebuild" =>
        USUAL.attempts(&[ONE, OTHER_TWO]).limit_of(2, 3).changes(&[Change::Move(-2), Change::Move(1)])
            .late(&[LateKind::Move]);
    "validity, pause, resume, validity; a late landing, a crash, Redis forgets, a rebuild" =>
        USUAL.attempts(&[ONE, OTHER]).changes(VALIDITY_TWICE).late(&[LateKind::Landing]).crashes(1).losses(1);
    "no limit: three keys of two users, a crash, a rebuild" =>
        USUAL.attempts(&[ONE, ONE, OWN, OTHER]).limit_of(0, 2).crashes(1);
    "no limit: three claims of two users, Redis forgets, a crash, a rebuild" =>
        USUAL.attempts(&[ONE, OWN, OTHER]).limit_of(0, 2).crashes(1).losses(1);
    "no limit: any late packet, a top-up, a rebuild" =>
        USUAL.attempts(&[ONE, OWN]).limit(0).changes(&[Change::Move(1)]).late(ALL_LATE);
};
