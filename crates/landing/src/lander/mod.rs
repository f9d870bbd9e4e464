//! The landers: each owns a share of the templates, one connection, and one queue.
//!
//! While one transaction is in flight, the next admissions queue up and go together. Batches therefore grow with the
//! load, and cause no delay without it. A lander that loses MySQL keeps its batch and retries; the number of claims
//! under way bounds its queue. A template whose stock row is locked is landed aside, on a separate connection, so that
//! the lander's other templates continue.

pub(crate) mod aside;
pub mod batch;
mod batch_loop;
mod landers;
mod link;
mod pulse;
pub mod settler;

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use coupon::TemplateId;
use mysql_store::landing::Landing;
use tokio::sync::oneshot;

use crate::lander::batch::Outcome;
pub use crate::lander::{
    batch_loop::Lander,
    landers::{LANDERS, Landers, landers},
};
pub(crate) use crate::lander::{
    batch_loop::{PING_EVERY, take_batch},
    landers::{answer_if_landed, answer_without_hold},
    link::{Link, answers},
};

/// Most coupons in one transaction. A tenth would suffice for the flush not to be the bottleneck; MySQL's limit of
/// 65,535 placeholders is far above.
pub(crate) const BATCH_COUPONS_MAX: usize = 1000;

/// An admission to land, and the channel for its outcome.
pub(crate) struct Job {
    pub(crate) landing: Landing,
    answer: oneshot::Sender<Outcome>,
    /// The time of landing for which the end of its hold was computed.
    held_as_of: Instant,
}

impl Job {
    pub(crate) fn template(&self) -> TemplateId {
        self.landing.landed.template_id
    }

    fn coupons(&self) -> usize {
        self.landing.landed.coupons.len()
    }
}

/// Returns a measured time in whole milliseconds, as times are stored.
pub(crate) fn delta(time: Duration) -> TimeDelta {
    TimeDelta::milliseconds(i64::try_from(time.as_millis()).unwrap_or_default())
}
