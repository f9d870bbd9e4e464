//! The bounds to explore: small ones for every test run, and larger ones for a soak.

use super::{Attempt, Bounds, Change, LateKind, attempt};

/// Bounds with a name.
pub type Configuration = (&'static str, Bounds);

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
const USUAL: Bounds = Bounds { resolvers: 1, rebuilders: 1, rebuilds: 1, ..Bounds::CALM };

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = &[
    (
        "three claims of two keys, two resolvers, a crash",
        Bounds { attempts: &[ONE, ONE, OTHER], resolvers: 2, crashes: 1, ..Bounds::CALM },
    ),
    (
        "Redis forgets, a crash, a rebuild",
        Bounds { attempts: &[ONE, ONE, OTHER], crashes: 1, losses: 1, ..USUAL },
    ),
    (
        "Redis forgets, a crash, two rebuilders",
        Bounds {
            attempts: &[ONE, OTHER],
            crashes: 1,
            losses: 1,
            rebuilders: 2,
            rebuilds: 2,
            ..USUAL
        },
    ),
    (
        "pause, resume, pause; Redis forgets, a rebuild",
        Bounds { attempts: &[ONE, ONE], changes: PAUSE_RESUME_PAUSE, losses: 1, ..USUAL },
    ),
    (
        "pause, resume; the reread in steps, a rebuild",
        Bounds { attempts: &[ONE, ONE], changes: PAUSE_RESUME, reread_in_steps: true, ..USUAL },
    ),
    (
        "a late claim, settle or release; a rebuild",
        Bounds { attempts: &[ONE, ONE, OTHER], late: 1, late_kinds: LATE_CALLS, ..USUAL },
    ),
    (
        "a late landing or state; pause, resume, a rebuild",
        Bounds {
            attempts: &[ONE, ONE],
            changes: PAUSE_RESUME,
            late: 1,
            late_kinds: &[LateKind::Landing, LateKind::SetState],
            ..USUAL
        },
    ),
    (
        "quantities 2, 2, 1; Redis forgets, a crash, a rebuild",
        Bounds { attempts: &[TWO, TWO, OTHER], limit: 2, total: 2, crashes: 1, losses: 1, ..USUAL },
    ),
    (
        "the same key asks for less; a crash, a rebuild",
        Bounds { attempts: &[TWO, ONE, OTHER], limit: 2, total: 2, crashes: 1, ..USUAL },
    ),
    (
        "two keys of one user and another user, a rebuild",
        Bounds { attempts: &[ONE, OWN, OTHER], limit: 2, total: 2, ..USUAL },
    ),
    (
        "Redis goes back in time, a crash, a rebuild",
        Bounds { attempts: &[ONE, ONE], rewinds: 1, crashes: 1, ..USUAL },
    ),
    (
        "the gate lies about stock or numbers, a rebuild",
        Bounds { attempts: &[ONE, OTHER], limit: 2, total: 2, lies: 1, ..USUAL },
    ),
    (
        "a top-up and a cut, a crash, a rebuild",
        Bounds { attempts: &[ONE, OTHER], changes: UP_AND_CUT, crashes: 1, ..USUAL },
    ),
    (
        "two cuts and a top-up, a late movement, Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE],
            total: 2,
            changes: &[Change::Move(-1), Change::Move(-1), Change::Move(1)],
            losses: 1,
            late: 1,
            late_kinds: &[LateKind::Move],
            resolvers: 0,
            ..USUAL
        },
    ),
    (
        "a pause and a top-up, Redis goes back in time, a rebuild",
        Bounds {
            attempts: &[ONE],
            changes: &[Change::Pause, Change::Move(1), Change::Resume],
            rewinds: 1,
            ..USUAL
        },
    ),
    (
        "the end, the gate goes; a crash, a late claim, a rebuild",
        Bounds {
            attempts: &[ONE, ONE],
            changes: &[Change::End],
            crashes: 1,
            late: 1,
            late_kinds: &[LateKind::Claim],
            ..USUAL
        },
    ),
    (
        "a top-up, a cut, the keeper looks twice; a crash, a rebuild",
        Bounds { attempts: &[ONE], total: 2, changes: UP_AND_CUT, crashes: 1, looks: 2, ..USUAL },
    ),
    (
        "validity, pause, resume, validity; a late landing, the reread in steps",
        Bounds {
            attempts: &[ONE, ONE],
            changes: VALIDITY_TWICE,
            late: 1,
            late_kinds: &[LateKind::Landing],
            reread_in_steps: true,
            resolvers: 1,
            ..Bounds::CALM
        },
    ),
    (
        "no limit: two keys of one user, Redis forgets, a crash, a rebuild",
        Bounds { attempts: &[ONE, ONE, OWN], limit: 0, losses: 1, crashes: 1, ..USUAL },
    ),
    (
        "no limit: three keys of one user, none but one remembered",
        Bounds {
            attempts: &[ONE, OWN, attempt(0, 3, 1), ONE],
            limit: 0,
            total: 2,
            resolvers: 0,
            crashes: 1,
            ..Bounds::CALM
        },
    ),
    (
        "no limit: two keys of one user, a late claim",
        Bounds {
            attempts: &[ONE, OWN, ONE],
            limit: 0,
            total: 3,
            late: 1,
            late_kinds: &[LateKind::Claim],
            resolvers: 1,
            ..Bounds::CALM
        },
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = &[
    (
        "four claims of two keys, two resolvers, a crash",
        Bounds { attempts: &[ONE, ONE, OTHER, OTHER], resolvers: 2, crashes: 1, ..Bounds::CALM },
    ),
    (
        "Redis forgets, a crash, two rebuilders, three claims",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            crashes: 1,
            losses: 1,
            rebuilders: 2,
            rebuilds: 2,
            ..USUAL
        },
    ),
    (
        "pause, resume, pause; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            limit: 2,
            changes: PAUSE_RESUME_PAUSE,
            losses: 1,
            crashes: 1,
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
            late: 1,
            late_kinds: ALL_LATE,
            ..USUAL
        },
    ),
    (
        "a late claim, a crash, a rebuild, limit 2",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            limit: 2,
            total: 2,
            crashes: 1,
            late: 1,
            late_kinds: &[LateKind::Claim],
            ..USUAL
        },
    ),
    (
        "a late landing; pause, resume, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            changes: PAUSE_RESUME,
            crashes: 1,
            late: 1,
            late_kinds: &[LateKind::Landing],
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
            rewinds: 1,
            crashes: 1,
            ..USUAL
        },
    ),
    (
        "the gate lies; two rebuilds, a crash",
        Bounds {
            attempts: &[TWO, OTHER],
            limit: 2,
            total: 2,
            lies: 1,
            crashes: 1,
            rebuilds: 2,
            ..USUAL
        },
    ),
    (
        "a top-up, a cut; a crash, Redis forgets, a rebuild",
        Bounds { attempts: &[ONE, OTHER], changes: UP_AND_CUT, crashes: 1, losses: 1, ..USUAL },
    ),
    (
        "a cut below what is pending, a top-up, a late movement, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER_TWO],
            limit: 2,
            total: 3,
            changes: &[Change::Move(-2), Change::Move(1)],
            late: 1,
            late_kinds: &[LateKind::Move],
            ..USUAL
        },
    ),
    (
        "validity, pause, resume, validity; a late landing, a crash, Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER],
            changes: VALIDITY_TWICE,
            late: 1,
            late_kinds: &[LateKind::Landing],
            crashes: 1,
            losses: 1,
            ..USUAL
        },
    ),
    (
        "no limit: three keys of two users, a crash, a rebuild",
        Bounds { attempts: &[ONE, ONE, OWN, OTHER], limit: 0, total: 2, crashes: 1, ..USUAL },
    ),
    (
        "no limit: three claims of two users, Redis forgets, a crash, a rebuild",
        Bounds { attempts: &[ONE, OWN, OTHER], limit: 0, total: 2, losses: 1, crashes: 1, ..USUAL },
    ),
    (
        "no limit: any late packet, a top-up, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            limit: 0,
            changes: &[Change::Move(1)],
            late: 1,
            late_kinds: ALL_LATE,
            ..USUAL
        },
    ),
];
