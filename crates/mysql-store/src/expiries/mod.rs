//! Deadlines of coupons, and the leases of worker numbers.

pub mod expiring;
pub mod expiry;
pub mod expiry_report;
pub mod worker_lease;
