//! A user's coupons, and what they are redeemed for.

pub mod checkout;
pub mod confirmation;
pub mod confirmation_batch;
pub mod desk;
pub mod holdings;
pub mod late_payment;
pub mod redemption;
pub mod redemption_batch;
pub mod redemption_order;
pub mod redemption_totals;
pub mod returns;
pub mod snapshot;
pub mod status_counts;
pub mod user_coupon;
pub mod user_view;
pub mod view_generation;
