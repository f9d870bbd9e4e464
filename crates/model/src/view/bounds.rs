//! Bounds of a search of the view.

use super::{Left, Promise};
use crate::Bug;

/// Most coupons.
pub(super) const COUPONS_MAX: usize = 2;

/// Most readers that rebuild at a time.
pub(super) const READERS_MAX: usize = 2;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most versions of each coupon; in odd versions it is unused. 0: there is no such coupon.
    pub versions: [u8; COUPONS_MAX],
    pub left: Left,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

impl Bounds {
    pub(super) fn coupons(&self) -> usize {
        self.versions.iter().filter(|versions| **versions > 0).count()
    }
}

const NONE: Left = Left {
    evictions: 0,
    replays: 0,
    rebuilds: 1,
    undecodable: 0,
    crashes: 0,
    generations: 0,
    failovers: 0,
};

const fn one(versions: u8, left: Left) -> Bounds {
    Bounds { versions: [versions, 0], left, bug: None }
}

const fn two(first: u8, second: u8, left: Left) -> Bounds {
    Bounds { versions: [first, second], left, bug: None }
}

/// Bounds that every test run explores.
pub const SMALL: &[(&str, Bounds)] = &[
    (
        "a coupon issued, used, given back; an eviction, a replay, two rebuilds",
        one(3, Left { evictions: 1, replays: 1, rebuilds: 2, ..NONE }),
    ),
    (
        "a coupon issued and used; an eviction, an undecodable event, two rebuilds, a death",
        one(2, Left { evictions: 1, undecodable: 1, rebuilds: 2, crashes: 1, ..NONE }),
    ),
    (
        "a coupon issued and used; Redis starts again, a replay, two rebuilds",
        one(2, Left { generations: 1, replays: 1, rebuilds: 2, ..NONE }),
    ),
    (
        "a coupon issued and used; Redis starts again twice, MySQL fails over, two rebuilds",
        one(2, Left { generations: 2, failovers: 1, rebuilds: 2, ..NONE }),
    ),
    (
        "two coupons; an eviction, two rebuilds",
        two(2, 2, Left { evictions: 1, rebuilds: 2, ..NONE }),
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[(&str, Bounds)] = &[
    (
        "a coupon of three versions; an eviction, two replays, three rebuilds, an undecodable event, a death",
        one(3, Left { evictions: 1, replays: 2, rebuilds: 3, undecodable: 1, crashes: 1, ..NONE }),
    ),
    (
        "two coupons; an eviction, a replay, two rebuilds",
        two(3, 2, Left { evictions: 1, replays: 1, rebuilds: 2, ..NONE }),
    ),
    (
        "two coupons; Redis starts again, an eviction, a replay, two rebuilds, a death",
        two(
            2,
            1,
            Left { generations: 1, evictions: 1, replays: 1, rebuilds: 2, crashes: 1, ..NONE },
        ),
    ),
];

/// Each planted mistake, the promise that it breaks, and the smallest known bounds in which it does.
pub const PLANTED: &[(Bug, Promise, Bounds)] = &[
    (Bug::RebuildReadsUnusedOnly, Promise::NoResurrection, one(2, NONE)),
    (Bug::PiecesOfDifferentMoments, Promise::KnowsWhatCameBefore, two(2, 1, NONE)),
    (
        Bug::WriteAgainUnconditional,
        Promise::NoResurrection,
        one(2, Left { evictions: 1, rebuilds: 2, replays: 1, ..NONE }),
    ),
    (Bug::NonceInHashOnly, Promise::NothingMissing, one(1, Left { evictions: 1, ..NONE })),
    (
        Bug::BeginKeepsKeys,
        Promise::NothingMissing,
        one(1, Left { evictions: 1, rebuilds: 2, ..NONE }),
    ),
    (Bug::NoTombstone, Promise::NoResurrection, one(2, Left { replays: 1, ..NONE })),
    (
        Bug::CompleteWithoutNonce,
        Promise::NothingMissing,
        one(1, Left { evictions: 1, rebuilds: 2, ..NONE }),
    ),
    (Bug::LoadingSkipped, Promise::NothingMissing, one(1, NONE)),
    (
        Bug::GenerationGivenTwice,
        Promise::NothingMissing,
        one(1, Left { generations: 2, failovers: 1, ..NONE }),
    ),
];
