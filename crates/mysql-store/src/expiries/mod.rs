//! Deadlines of coupons.

pub mod expiring;
pub mod expiry;
pub mod expiry_report;
