//! The landers: each owns a share of the templates, one connection, and one queue.
//!
//! While one transaction is in flight, the next admissions queue up and go together. Batches therefore grow with the
//! load, and cause no delay without it. A lander that loses MySQL keeps its batch and retries; the number of claims
//! under way bounds its queue. A template whose stock row is locked is landed aside, on a separate connection, so that
//! the lander's other templates continue.

pub(crate) mod aside;
mod batch_loop;
mod landers;
mod link;
mod pulse;
pub mod settler;

use tokio::sync::oneshot;

use crate::batch::{self, Outcome};
pub use crate::lander::{
    batch_loop::Lander,
    landers::{LANDERS, Landers, LandingWait, landers},
};
pub(crate) use crate::lander::{
    batch_loop::{PING_EVERY, take_batch},
    landers::{answer_if_landed, answer_without_hold},
    link::{Link, answers},
};

/// An admission to land, with the channel for its outcome.
pub(crate) type Job = batch::Job<oneshot::Sender<Outcome>>;
