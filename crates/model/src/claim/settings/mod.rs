//! The bounds to explore, and the planted mistakes with the smallest known bounds in which each is found.

#[macro_use]
mod tables;

pub mod direct;
pub mod direct_planted;
pub mod failover;
pub mod halted;
pub mod held;
pub mod held_planted;
pub mod mixed;
pub mod queued;
pub mod queued_planted;
pub mod sold_out;

use super::{Bounds, Promise};
use crate::Bug;

/// Bounds with a name.
pub type Configuration = (&'static str, Bounds);

/// A mistake, the promise that it breaks, and the bounds; these do not contain the mistake yet.
pub type Planted = (Bug, Promise, Bounds);

/// A subject, its small bounds, and its large ones.
pub type Subject = (&'static str, &'static [Configuration], &'static [Configuration]);

/// All subjects; the first has no prefix in a list.
pub const ALL: &[Subject] = &[
    ("", direct::SMALL, direct::LARGE),
    ("queued: ", queued::SMALL, queued::LARGE),
    ("holds: ", held::SMALL, held::LARGE),
    ("sold out: ", sold_out::SMALL, sold_out::LARGE),
    ("failover: ", failover::SMALL, failover::LARGE),
    ("paused at the gate: ", halted::SMALL, halted::LARGE),
    ("mixed: ", mixed::SMALL, mixed::LARGE),
];
