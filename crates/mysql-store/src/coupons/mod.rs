//! A user's coupons.

pub mod snapshot;
pub mod user_coupon;
pub mod user_view;
pub mod view_generation;
