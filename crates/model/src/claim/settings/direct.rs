//! Bounds of direct claims: small ones for every test run, and larger ones for a soak.

use super::{
    super::{Attempt, Bounds, Change, LateKind, Left, attempt},
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
const USUAL: Bounds = Bounds { resolvers: 1, rebuilders: 1, left: REBUILDS, ..Bounds::CALM };

const REBUILDS: Left = Left { rebuilds: 1, ..Left::NONE };

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = &[
    (
        "three claims of two keys, two resolvers, a crash",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            resolvers: 2,
            left: Left { crashes: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        "Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            left: Left { crashes: 1, losses: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "Redis forgets, a crash, two rebuilders",
        Bounds {
            attempts: &[ONE, OTHER],
            rebuilders: 2,
            left: Left { crashes: 1, losses: 1, rebuilds: 2, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "pause, resume, pause; Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, ONE],
            changes: PAUSE_RESUME_PAUSE,
            left: Left { losses: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "pause, resume; the reread in steps, a rebuild",
        Bounds { attempts: &[ONE, ONE], changes: PAUSE_RESUME, reread_in_steps: true, ..USUAL },
    ),
    (
        "a late claim, settle or release; a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            late_kinds: LATE_CALLS,
            left: Left { late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a late landing or state; pause, resume, a rebuild",
        Bounds {
            attempts: &[ONE, ONE],
            changes: PAUSE_RESUME,
            late_kinds: &[LateKind::Landing, LateKind::SetState],
            left: Left { late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "quantities 2, 2, 1; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[TWO, TWO, OTHER],
            limit: 2,
            total: 2,
            left: Left { crashes: 1, losses: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "the same key asks for less; a crash, a rebuild",
        Bounds {
            attempts: &[TWO, ONE, OTHER],
            limit: 2,
            total: 2,
            left: Left { crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "two keys of one user and another user, a rebuild",
        Bounds { attempts: &[ONE, OWN, OTHER], limit: 2, total: 2, ..USUAL },
    ),
    (
        "Redis goes back in time, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE],
            left: Left { rewinds: 1, crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "the gate lies about stock or numbers, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER],
            limit: 2,
            total: 2,
            left: Left { lies: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a top-up and a cut, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER],
            changes: UP_AND_CUT,
            left: Left { crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "two cuts and a top-up, a late movement, Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE],
            total: 2,
            changes: &[Change::Move(-1), Change::Move(-1), Change::Move(1)],
            late_kinds: &[LateKind::Move],
            resolvers: 0,
            left: Left { losses: 1, late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a pause and a top-up, Redis goes back in time, a rebuild",
        Bounds {
            attempts: &[ONE],
            changes: &[Change::Pause, Change::Move(1), Change::Resume],
            left: Left { rewinds: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "the end, the gate goes; a crash, a late claim, a rebuild",
        Bounds {
            attempts: &[ONE, ONE],
            changes: &[Change::End],
            late_kinds: &[LateKind::Claim],
            left: Left { crashes: 1, late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a top-up, a cut, the keeper looks twice; a crash, a rebuild",
        Bounds {
            attempts: &[ONE],
            total: 2,
            changes: UP_AND_CUT,
            left: Left { crashes: 1, checks: 2, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "validity, pause, resume, validity; a late landing, the reread in steps",
        Bounds {
            attempts: &[ONE, ONE],
            changes: VALIDITY_TWICE,
            late_kinds: &[LateKind::Landing],
            reread_in_steps: true,
            resolvers: 1,
            left: Left { late: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        "no limit: two keys of one user, Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OWN],
            limit: 0,
            left: Left { losses: 1, crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "no limit: three keys of one user, none but one remembered",
        Bounds {
            attempts: &[ONE, OWN, attempt(0, 3, 1), ONE],
            limit: 0,
            total: 2,
            resolvers: 0,
            left: Left { crashes: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        "no limit: two keys of one user, a late claim",
        Bounds {
            attempts: &[ONE, OWN, ONE],
            limit: 0,
            total: 3,
            late_kinds: &[LateKind::Claim],
            resolvers: 1,
            left: Left { late: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = &[
    (
        "four claims of two keys, two resolvers, a crash",
        Bounds {
            attempts: &[ONE, ONE, OTHER, OTHER],
            resolvers: 2,
            left: Left { crashes: 1, ..Left::NONE },
            ..Bounds::CALM
        },
    ),
    (
        "Redis forgets, a crash, two rebuilders, three claims",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            rebuilders: 2,
            left: Left { crashes: 1, losses: 1, rebuilds: 2, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "pause, resume, pause; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            limit: 2,
            changes: PAUSE_RESUME_PAUSE,
            left: Left { losses: 1, crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "pause, resume, pause; the reread in steps, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            changes: PAUSE_RESUME_PAUSE,
            reread_in_steps: true,
            ..USUAL
        },
    ),
    (
        "any late packet; pause, a top-up, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER],
            changes: &[Change::Pause, Change::Move(1)],
            late_kinds: ALL_LATE,
            left: Left { late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a late claim, a crash, a rebuild, limit 2",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            limit: 2,
            total: 2,
            late_kinds: &[LateKind::Claim],
            left: Left { crashes: 1, late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a late landing; pause, resume, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            changes: PAUSE_RESUME,
            late_kinds: &[LateKind::Landing],
            left: Left { crashes: 1, late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "two keys of one user and another user, four claims, a rebuild",
        Bounds { attempts: &[ONE, ONE, OTHER, OWN], limit: 2, total: 2, ..USUAL },
    ),
    (
        "Redis goes back in time, a crash, a rebuild, three claims",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            limit: 2,
            total: 2,
            left: Left { rewinds: 1, crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "the gate lies; two rebuilds, a crash",
        Bounds {
            attempts: &[TWO, OTHER],
            limit: 2,
            total: 2,
            left: Left { lies: 1, crashes: 1, rebuilds: 2, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a top-up, a cut; a crash, Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER],
            changes: UP_AND_CUT,
            left: Left { crashes: 1, losses: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "a cut below what is pending, a top-up, a late movement, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER_TWO],
            limit: 2,
            total: 3,
            changes: &[Change::Move(-2), Change::Move(1)],
            late_kinds: &[LateKind::Move],
            left: Left { late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "validity, pause, resume, validity; a late landing, a crash, Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER],
            changes: VALIDITY_TWICE,
            late_kinds: &[LateKind::Landing],
            left: Left { late: 1, crashes: 1, losses: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "no limit: three keys of two users, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OWN, OTHER],
            limit: 0,
            total: 2,
            left: Left { crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "no limit: three claims of two users, Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, OTHER],
            limit: 0,
            total: 2,
            left: Left { losses: 1, crashes: 1, ..REBUILDS },
            ..USUAL
        },
    ),
    (
        "no limit: any late packet, a top-up, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            limit: 0,
            changes: &[Change::Move(1)],
            late_kinds: ALL_LATE,
            left: Left { late: 1, ..REBUILDS },
            ..USUAL
        },
    ),
];
