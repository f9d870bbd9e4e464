//! What holds add to a state.

use super::super::{
    bounds::{CALLS_MAX, WORKERS_MAX},
    truth::Set,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Holds {
    pub payments: [Payment; CALLS_MAX],
    pub cancels: [Cancel; CALLS_MAX],
    /// What each expiry-worker has read and is about to lapse.
    pub lapsers: [Set; WORKERS_MAX],
}

/// A request to confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Payment {
    /// Not sent, or sent without an answer; it may be sent again.
    #[default]
    Unsent,
    /// Only with [`crate::Bug::ConfirmWithoutCompare`]: has read that all coupons are held.
    Read,
    /// Answered OK.
    Paid,
    /// Answered that the hold has lapsed or was cancelled.
    Refused,
}

/// A request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cancel {
    #[default]
    Unsent,
    /// Has read the ids of the coupons.
    Read(Set),
    /// Its movement has this number; sends it to the gate once it is visible.
    Tell(u8),
    /// Answered, or dead.
    Done,
}
