//! A user's coupons.

mod user_coupon;
mod user_view;
mod view_generation;
