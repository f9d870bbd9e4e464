//! Bounds of a search of worker numbers.

use super::{Left, Promise};
use crate::Bug;

/// Processes at a time.
pub(super) const PROCESSES: usize = 2;

/// What all clocks show at first: clocks may be behind.
pub(super) const START: u8 = 3;

/// Ticks of which ids can be made. A clock may be ahead of MySQL's last tick.
pub(super) const TICKS: usize = 16;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The time at which a search ends.
    pub ticks: u8,
    pub left: Left,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

const NONE: Left = Left { crashes: 0, wrong_clocks: 0, pauses: 0, failovers: 0, jumps: 0 };

const fn of(ticks: u8, left: Left) -> Bounds {
    Bounds { ticks, left, bug: None }
}

/// Bounds that every test run explores.
pub const SMALL: &[(&str, Bounds)] = &[
    ("two crashes", of(9, Left { crashes: 2, ..NONE })),
    ("a crash, two wrong clocks", of(8, Left { crashes: 2, wrong_clocks: 2, ..NONE })),
    ("a crash, a process stands still", of(9, Left { crashes: 1, pauses: 2, ..NONE })),
    ("a crash, MySQL loses renewals", of(9, Left { crashes: 1, failovers: 1, ..NONE })),
    ("a crash, MySQL's clock jumps", of(9, Left { crashes: 1, jumps: 1, ..NONE })),
];

/// Bounds that a soak explores.
pub const LARGE: &[(&str, Bounds)] = &[
    (
        "a wrong clock, a pause, MySQL loses renewals",
        of(9, Left { crashes: 1, wrong_clocks: 1, pauses: 1, failovers: 1, jumps: 0 }),
    ),
    (
        "a wrong clock, MySQL loses renewals, its clock jumps",
        of(8, Left { crashes: 1, wrong_clocks: 1, pauses: 0, failovers: 1, jumps: 1 }),
    ),
];

/// Each planted mistake, the promise that it breaks, and the smallest known bounds in which it does.
pub const PLANTED: &[(Bug, Promise, Bounds)] = &[
    (Bug::LastIdNotWaitedFor, Promise::NoIdTwice, of(9, Left { crashes: 1, ..NONE })),
    (Bug::RangeNotRecorded, Promise::NoIdTwice, of(9, Left { jumps: 1, ..NONE })),
    (Bug::YoungRangeUsed, Promise::NoIdTwice, of(9, Left { failovers: 1, ..NONE })),
    (
        Bug::CorrectedBeyondTheRange,
        Promise::NoIdTwice,
        of(7, Left { crashes: 1, wrong_clocks: 1, failovers: 1, jumps: 1, pauses: 0 }),
    ),
    (Bug::NumberGivenBackInUse, Promise::NoIdTwice, of(9, NONE)),
    (Bug::TakingLost, Promise::NoIdTwice, of(9, Left { failovers: 1, ..NONE })),
];
