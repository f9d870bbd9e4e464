//! Bounds of a search of the reconciler.

use super::{Left, Promise};
use crate::Bug;

/// Most claims, of one coupon each.
pub(super) const CLAIMS_MAX: usize = 3;

/// Most movements.
pub(super) const MOVEMENTS_MAX: usize = 3;

/// Most reconcilers, and most keepers.
pub(super) const PROCESSES_MAX: usize = 2;

/// Most operators who repair the ledger at the same time.
pub(super) const OPERATORS_MAX: usize = 2;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Initial number of coupons.
    pub total: i8,
    /// Limit of the one user.
    pub limit: u8,
    /// The claims.
    pub claims: &'static [Way],
    /// Number of reconcilers, and of keepers.
    pub processes: usize,
    /// Whether a movement's message may come before the movement can be read.
    pub hidden: bool,
    pub left: Left,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

/// How a claim lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Direct,
    Queued,
}

use self::Way::{Direct, Queued};

/// One look.
const LOOK: Left = Left {
    looks: 1,
    returns: 0,
    top_ups: 0,
    crashes: 0,
    rebuilds: 0,
    rewinds: 0,
    lies: 0,
    drifts: 0,
    repairs: 0,
};

const RETURN: Left = Left { returns: 1, ..LOOK };

const LIE: Left = Left { lies: 1, ..LOOK };

/// Without a look at the gate.
const DRIFT: Left = Left { looks: 0, drifts: 1, repairs: 1, ..LOOK };

const fn of(claims: &'static [Way], left: Left) -> Bounds {
    Bounds { total: 2, limit: 2, claims, processes: 1, hidden: false, left, bug: None }
}

const fn hidden(claims: &'static [Way], left: Left) -> Bounds {
    Bounds { hidden: true, ..of(claims, left) }
}

const fn two(claims: &'static [Way], left: Left) -> Bounds {
    Bounds { processes: 2, ..of(claims, left) }
}

/// Bounds that every test run explores.
pub const SMALL: &[(&str, Bounds)] = &[
    ("two claims, a return", of(&[Direct, Direct], RETURN)),
    ("three claims, a return, hidden", hidden(&[Direct, Direct, Direct], RETURN)),
    (
        "a direct and a queued claim, a return and a top-up, hidden; a death",
        hidden(&[Direct, Queued], Left { top_ups: 1, crashes: 1, ..RETURN }),
    ),
    (
        "two claims, the gate lies, a death; two looks",
        of(&[Direct, Direct], Left { looks: 2, crashes: 1, ..LIE }),
    ),
    (
        "a direct and a queued claim, the gate lies, a rebuild",
        of(&[Direct, Queued], Left { rebuilds: 1, ..LIE }),
    ),
    (
        "two claims, Redis goes back in time, a rebuild",
        of(&[Direct, Direct], Left { rewinds: 1, rebuilds: 1, ..LOOK }),
    ),
    (
        "two claims, a return, Redis goes back in time",
        of(&[Direct, Direct], Left { rewinds: 1, ..RETURN }),
    ),
    ("a claim, the gate lies; two reconcilers", two(&[Direct], Left { looks: 2, ..LIE })),
    ("two claims, a return; two reconcilers", two(&[Direct, Direct], Left { looks: 2, ..RETURN })),
    (
        "two claims, the ledger drifts; a look, two operators",
        of(&[Direct, Direct], Left { looks: 1, repairs: 2, ..DRIFT }),
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[(&str, Bounds)] = &[
    (
        "three claims, two returns, hidden; the gate lies, a death",
        hidden(&[Direct, Queued, Direct], Left { returns: 2, crashes: 1, ..LIE }),
    ),
    (
        "two claims, a return, the gate lies, Redis goes back in time; two reconcilers",
        two(&[Direct, Direct], Left { looks: 2, returns: 1, rewinds: 1, ..LIE }),
    ),
    (
        "two claims, a return, the ledger drifts; two reconcilers, two operators",
        two(&[Direct, Direct], Left { looks: 1, returns: 1, repairs: 2, ..DRIFT }),
    ),
];

/// Each planted mistake, the promise that it breaks, and the smallest known bounds in which it does.
pub const PLANTED: &[(Bug, Promise, Bounds)] = &[
    (Bug::LookReadsMySqlFirst, Promise::NoFalseFinding, of(&[Direct], LOOK)),
    (Bug::LookReadsGateOnce, Promise::NoFalseFinding, of(&[Direct], LOOK)),
    (Bug::LookIgnoresMovements, Promise::NoFalseFinding, of(&[Direct], RETURN)),
    (Bug::LookIgnoresPending, Promise::NoFalseFinding, of(&[Direct], LOOK)),
    (Bug::LookJudgesTheUnseen, Promise::NoFalseFinding, hidden(&[Direct], RETURN)),
    (Bug::LookIgnoresRun, Promise::NoFalseFinding, of(&[Direct], Left { rewinds: 1, ..LOOK })),
    (Bug::InFlightReadApart, Promise::NoFalseFinding, of(&[Direct], LOOK)),
    (Bug::PendingTrusted, Promise::EveryFaultFound, of(&[Direct], Left { crashes: 1, ..LIE })),
    (Bug::RaiseUnconditional, Promise::RepairedOnce, two(&[Direct], LIE)),
    (Bug::ReconcilerFencesQueued, Promise::AcceptedLands, of(&[Queued], LOOK)),
    (Bug::RepairAbsolute, Promise::RepairHelps, of(&[Direct], DRIFT)),
    (Bug::RepairTwice, Promise::RepairHelps, of(&[Direct], Left { repairs: 2, ..DRIFT })),
];
