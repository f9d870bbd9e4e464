//! What shops redeem coupons for: orders.

pub(crate) mod batches;
