//! What the calls of shops share: the stock that their pages show, and the queues of calls that are served together.

pub(crate) mod batch_queue;
pub(crate) mod batches;
pub(crate) mod payment;
pub(crate) mod redemption;
pub(crate) mod stock;
