//! What shops redeem coupons for: orders, their cancellation, and what they meet at once.

pub(crate) mod batches;
pub(crate) mod cancellation;
pub(crate) mod judged;
pub(crate) mod orders;
pub(crate) mod races;
