//! A user's coupons.

mod confirmation_batch;
mod holdings;
mod redemption;
pub(crate) mod returns;
mod status_counts;
mod user_coupon;
pub(crate) mod user_view;
mod view_generation;
