//! Bounds of queued claims: small ones for every test run, and larger ones for a soak.

use coupon::{AcceptAfter, ClaimMode};

use super::{
    super::{Attempt, Bounds, Change, Left, attempt},
    Configuration,
};

const ONE: Attempt = attempt(0, 0, 1);
const OWN: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 1, 1);
const THIRD: Attempt = attempt(2, 3, 1);

const NONE: Left = Left::NONE;
const TWO: Bounds = Bounds { attempts: &[ONE, OTHER], ..Bounds::QUEUED };
const SAME: Bounds = Bounds { attempts: &[ONE, ONE], ..Bounds::QUEUED };
const CUT: &[Change] = &[Change::Move(-1), Change::Move(1)];

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = &[
    (
        "Redis forgets, a crash, a rebuild",
        Bounds { left: Left { rebuilds: 1, losses: 1, crashes: 1, reads: 1, ..NONE }, ..TWO },
    ),
    (
        "the same key twice; Redis forgets, a crash, a rebuild",
        Bounds { left: Left { rebuilds: 1, losses: 1, crashes: 1, reads: 1, ..NONE }, ..SAME },
    ),
    (
        "Redis goes back in time, two relays, a rebuild",
        Bounds { relays: 2, left: Left { rebuilds: 1, rewinds: 1, reads: 2, ..NONE }, ..TWO },
    ),
    (
        "Redis forgets, two rebuilders, a crash",
        Bounds { rebuilders: 2, left: Left { rebuilds: 2, losses: 1, crashes: 1, ..NONE }, ..TWO },
    ),
    (
        "two landers, the gate is deaf, a crash, a rebuild",
        Bounds { landers: 2, left: Left { rebuilds: 1, crashes: 1, deaf: 1, ..NONE }, ..TWO },
    ),
    (
        "a cut and a top-up, the same key twice, two landers, a rebuild",
        Bounds { changes: CUT, landers: 2, left: Left { rebuilds: 1, ..NONE }, ..SAME },
    ),
    (
        "a cut and a top-up, Redis forgets, a crash, a rebuild",
        Bounds { changes: CUT, left: Left { rebuilds: 1, losses: 1, crashes: 1, ..NONE }, ..SAME },
    ),
    (
        "a cut, Redis goes back in time, a rebuild",
        Bounds {
            changes: &[Change::Move(-1)],

            left: Left { rebuilds: 1, rewinds: 1, reads: 1, ..NONE },
            ..TWO
        },
    ),
    (
        "direct, queued, direct; the same key twice and another user, a crash, a rebuild",
        Bounds {
            mode: ClaimMode::Direct,
            attempts: &[ONE, ONE, OTHER],
            changes: &[Change::Mode(ClaimMode::Queued), Change::Mode(ClaimMode::Direct)],
            left: Left { rebuilds: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "spill, the same key twice and another user; a crash, Redis forgets, a rebuild",
        Bounds {
            mode: ClaimMode::Spill,
            attempts: &[ONE, ONE, OTHER],
            left: Left { rebuilds: 1, crashes: 1, losses: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "spill, two keys of one user; the gate lies, a rebuild",
        Bounds {
            mode: ClaimMode::Spill,
            attempts: &[ONE, OWN],
            limit: 2,
            total: 2,
            left: Left { rebuilds: 1, lies: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "two keys of one user, limit 1; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            total: 2,
            left: Left { rebuilds: 1, losses: 1, crashes: 1, reads: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "pause, resume; Redis forgets, a crash, a rebuild",
        Bounds {
            changes: &[Change::Pause, Change::Resume],
            left: Left { rebuilds: 1, losses: 1, crashes: 1, ..NONE },
            ..SAME
        },
    ),
    (
        "a pause that rejects, resume; two landers, the same key twice, a rebuild",
        Bounds {
            changes: &[Change::PauseReject, Change::Resume],
            landers: 2,
            left: Left { rebuilds: 1, ..NONE },
            ..SAME
        },
    ),
    (
        "the end; Redis forgets, a crash, a rebuild",
        Bounds {
            changes: &[Change::End],
            left: Left { rebuilds: 1, losses: 1, crashes: 1, ..NONE },
            ..SAME
        },
    ),
    (
        "the end that rejects; Redis goes back in time, a rebuild",
        Bounds {
            changes: &[Change::EndReject],

            left: Left { rebuilds: 1, rewinds: 1, reads: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "the client looks twice; Redis forgets, a crash, a rebuild",
        Bounds { left: Left { rebuilds: 1, losses: 1, looks: 2, crashes: 1, ..NONE }, ..SAME },
    ),
    (
        "lookups under another template; a cut, the same key twice, a crash, a rebuild",
        Bounds {
            changes: &[Change::Move(-1)],
            left: Left { rebuilds: 1, crashes: 1, strangers: 2, looks: 1, ..NONE },
            ..SAME
        },
    ),
    (
        "spill; lookups under another template, Redis forgets, a crash, a rebuild",
        Bounds {
            mode: ClaimMode::Spill,
            left: Left { rebuilds: 1, losses: 1, crashes: 1, strangers: 2, ..NONE },
            ..TWO
        },
    ),
    (
        "an entry that the broker refuses; a queued request that nobody carries, a rebuild",
        Bounds { left: Left { rebuilds: 1, reads: 2, refusals: 1, crashes: 1, ..NONE }, ..SAME },
    ),
    (
        "after the gate: two relays, two crashes, a rebuild, an orphan",
        Bounds {
            accept_after: AcceptAfter::Gate,
            relays: 2,
            left: Left { rebuilds: 1, reads: 3, crashes: 2, orphans: 1, ..NONE },
            ..TWO
        },
    ),
    (
        "after the gate: the broker refuses, Redis forgets, an orphan, a rebuild",
        Bounds {
            accept_after: AcceptAfter::Gate,
            left: Left { rebuilds: 1, reads: 2, refusals: 1, losses: 1, orphans: 1, ..NONE },
            ..SAME
        },
    ),
    (
        "after the gate: Redis goes back in time, two relays, a rebuild",
        Bounds {
            accept_after: AcceptAfter::Gate,
            relays: 2,
            left: Left { rebuilds: 1, rewinds: 1, reads: 3, ..NONE },
            ..TWO
        },
    ),
    (
        "after a replica: it takes over, a crash, a rebuild",
        Bounds {
            accept_after: AcceptAfter::Replica,
            left: Left { rebuilds: 1, rewinds: 1, crashes: 1, reads: 2, ..NONE },
            ..TWO
        },
    ),
    (
        "after a replica: the same key twice, two take over, two rebuilds",
        Bounds {
            accept_after: AcceptAfter::Replica,
            left: Left { rebuilds: 2, rewinds: 2, reads: 1, ..NONE },
            ..SAME
        },
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = &[
    (
        "three users; Redis forgets, a crash, two rebuilders",
        Bounds {
            attempts: &[ONE, OTHER, THIRD],
            total: 2,
            rebuilders: 2,
            left: Left { rebuilds: 2, losses: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "four claims, two landers, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER, THIRD],
            total: 2,
            landers: 2,
            left: Left { rebuilds: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "four claims; the end, Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER, THIRD],
            total: 2,
            changes: &[Change::End],
            left: Left { rebuilds: 1, losses: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "Redis goes back in time, two relays, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            relays: 2,
            left: Left { rebuilds: 1, rewinds: 1, reads: 2, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "two cuts and a top-up, a crash, Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OTHER],
            total: 2,
            changes: &[Change::Move(-1), Change::Move(-1), Change::Move(1)],
            left: Left { rebuilds: 1, losses: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "spill, four claims of two users; the gate is deaf, a crash, Redis forgets, a rebuild",
        Bounds {
            mode: ClaimMode::Spill,
            attempts: &[ONE, ONE, OTHER, OTHER],
            left: Left { rebuilds: 1, losses: 1, crashes: 1, deaf: 1, reads: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "direct, queued, spill; two rebuilders, a crash, Redis forgets",
        Bounds {
            mode: ClaimMode::Direct,
            attempts: &[ONE, ONE, OTHER],
            changes: &[Change::Mode(ClaimMode::Queued), Change::Mode(ClaimMode::Spill)],
            rebuilders: 2,
            left: Left { rebuilds: 2, losses: 1, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "pauses that reject and that do not; a crash, a look, a rebuild",
        Bounds {
            attempts: &[ONE, ONE, OTHER],
            changes: &[Change::PauseReject, Change::Resume, Change::Pause],
            left: Left { rebuilds: 1, crashes: 1, looks: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "after the gate: the broker refuses, two relays, two crashes, an orphan, two rebuilders",
        Bounds {
            accept_after: AcceptAfter::Gate,
            attempts: &[ONE, ONE, OTHER],
            relays: 2,
            rebuilders: 2,
            left: Left { rebuilds: 2, reads: 3, crashes: 2, refusals: 1, orphans: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
    (
        "after a replica: two take over, a crash, two rebuilders",
        Bounds {
            accept_after: AcceptAfter::Replica,
            attempts: &[ONE, OTHER],
            rebuilders: 2,
            left: Left { rebuilds: 2, rewinds: 2, reads: 2, crashes: 1, ..NONE },
            ..Bounds::QUEUED
        },
    ),
];
