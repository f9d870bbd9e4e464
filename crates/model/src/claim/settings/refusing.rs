//! Bounds of refusals from memory, and their planted mistakes. A claim that will not land is one whose process dies.

use super::{
    super::{Attempt, Bounds, Change, Left, Promise, attempt},
    Configuration, Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OTHER: Attempt = attempt(1, 1, 1);
const THIRD: Attempt = attempt(2, 2, 1);

const NONE: Left = Left::NONE;
const TOP_UP: &[Change] = &[Change::Move(1)];
const TOP_UPS: &[Change] = &[Change::Move(1), Change::Move(1)];
const TWO: Bounds = Bounds { attempts: &[ONE, OTHER], ..Bounds::REFUSING };

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = &[
    (
        "two apis, two users; a top-up, a release",
        Bounds { apis: 2, changes: TOP_UP, left: Left { crashes: 1, ..NONE }, ..TWO },
    ),
    (
        "an api, three users; two top-ups, a release",
        Bounds {
            attempts: &[ONE, OTHER, THIRD],
            changes: TOP_UPS,
            left: Left { crashes: 1, ..NONE },
            ..TWO
        },
    ),
    (
        "an api that forgets, two users; Redis forgets, a top-up, a rebuild",
        Bounds {
            changes: TOP_UP,
            left: Left { losses: 1, rebuilds: 1, forgets: 1, ..NONE },
            ..TWO
        },
    ),
    (
        "an api, a user; Redis goes back in time, a top-up, a rebuild",
        Bounds {
            changes: TOP_UP,
            left: Left { rewinds: 1, rebuilds: 1, ..NONE },
            ..Bounds::REFUSING
        },
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = &[
    (
        "two apis, two users; Redis forgets, a top-up, a rebuild",
        Bounds { apis: 2, changes: TOP_UP, left: Left { losses: 1, rebuilds: 1, ..NONE }, ..TWO },
    ),
    (
        "two apis, three users; two top-ups, a release",
        Bounds {
            attempts: &[ONE, OTHER, THIRD],
            apis: 2,
            changes: TOP_UPS,
            left: Left { crashes: 1, ..NONE },
            ..TWO
        },
    ),
    (
        "an api, two users; Redis goes back in time, a top-up, a rebuild",
        Bounds { changes: TOP_UP, left: Left { rewinds: 1, rebuilds: 1, ..NONE }, ..TWO },
    ),
];

/// Every planted mistake of refusals from memory.
pub const PLANTED: &[Planted] = &[
    (
        Bug::ScanNotProved,
        Promise::AnsweredIsNotRefused,
        Bounds { attempts: &[ONE, ONE, OTHER], left: Left { crashes: 1, ..NONE }, ..TWO },
    ),
    (
        Bug::LeaseFromTheLooksEnd,
        Promise::AsTheGateDid,
        Bounds { total: 0, changes: TOP_UP, ..Bounds::REFUSING },
    ),
    (
        Bug::LookWithoutEpoch,
        Promise::AsTheGateDid,
        Bounds { left: Left { rebuilds: 1, ..NONE }, ..TWO },
    ),
    (
        Bug::LookWithoutRun,
        Promise::AsTheGateDid,
        Bounds { total: 0, left: Left { rewinds: 1, ..NONE }, ..Bounds::REFUSING },
    ),
    (
        Bug::AnswerBeforeRefusalsEnd,
        Promise::AnsweredIsNotRefused,
        Bounds { total: 0, changes: TOP_UP, ..Bounds::REFUSING },
    ),
    (
        Bug::RebuildNotesNothing,
        Promise::AnsweredIsNotRefused,
        Bounds {
            total: 0,
            changes: TOP_UP,
            left: Left { losses: 1, rebuilds: 1, ..NONE },
            ..Bounds::REFUSING
        },
    ),
];
