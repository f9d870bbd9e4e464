//! What the calls of shops share: the stock that their pages show, and the queue of redemptions.

pub(crate) mod redemption_queue;
pub(crate) mod stock;
