//! Bounds of a search of refusals from memory.

use super::{Left, Promise};
use crate::Bug;

/// Most users.
pub(super) const USERS: usize = 3;

/// Most apis.
pub(super) const APIS: usize = 2;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub users: usize,
    pub apis: usize,
    /// Coupons at the beginning.
    pub total: u8,
    pub left: Left,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

const NONE: Left = Left { top_ups: 0, releases: 0, losses: 0, rewinds: 0, rebuilds: 0, forgets: 0 };

const fn of(users: usize, apis: usize, total: u8, left: Left) -> Bounds {
    Bounds { users, apis, total, left, bug: None }
}

/// Bounds that every test run explores.
pub const SMALL: &[(&str, Bounds)] = &[
    (
        "two apis, two users; a top-up, a release",
        of(2, 2, 1, Left { top_ups: 1, releases: 1, ..NONE }),
    ),
    (
        "an api, three users; two top-ups, a release",
        of(3, 1, 1, Left { top_ups: 2, releases: 1, ..NONE }),
    ),
    (
        "an api that forgets, two users; Redis forgets, a top-up, a rebuild",
        of(2, 1, 1, Left { losses: 1, top_ups: 1, rebuilds: 1, forgets: 1, ..NONE }),
    ),
    (
        "an api, a user; Redis goes back in time, a top-up, a rebuild",
        of(1, 1, 1, Left { rewinds: 1, top_ups: 1, rebuilds: 1, ..NONE }),
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[(&str, Bounds)] = &[
    (
        "two apis, two users; Redis forgets, a top-up, a rebuild",
        of(2, 2, 1, Left { losses: 1, top_ups: 1, rebuilds: 1, ..NONE }),
    ),
    (
        "two apis, three users; two top-ups, a release",
        of(3, 2, 1, Left { top_ups: 2, releases: 1, ..NONE }),
    ),
    (
        "an api, two users; Redis goes back in time, a top-up, a rebuild",
        of(2, 1, 1, Left { rewinds: 1, top_ups: 1, rebuilds: 1, ..NONE }),
    ),
];

/// Each planted mistake, the promise that it breaks, and the smallest known bounds in which it does.
pub const PLANTED: &[(Bug, Promise, Bounds)] = &[
    (Bug::ScanNotProved, Promise::AnsweredIsNotRefused, of(2, 1, 1, Left { releases: 1, ..NONE })),
    (Bug::LeaseFromTheLooksEnd, Promise::AsTheGateDid, of(1, 1, 0, Left { top_ups: 1, ..NONE })),
    (Bug::LookWithoutEpoch, Promise::AsTheGateDid, of(2, 1, 1, Left { rebuilds: 1, ..NONE })),
    (Bug::LookWithoutRun, Promise::AsTheGateDid, of(1, 1, 0, Left { rewinds: 1, ..NONE })),
    (
        Bug::AnswerBeforeRefusalsEnd,
        Promise::AnsweredIsNotRefused,
        of(1, 1, 0, Left { top_ups: 1, ..NONE }),
    ),
    (
        Bug::RebuildNotesNothing,
        Promise::AnsweredIsNotRefused,
        of(1, 1, 0, Left { losses: 1, top_ups: 1, rebuilds: 1, ..NONE }),
    ),
];
