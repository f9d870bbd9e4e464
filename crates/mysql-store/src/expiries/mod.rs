//! Deadlines, and the leases of those who keep them.

pub mod expiring;
pub mod expiry;
pub mod expiry_report;
pub mod worker_lease;
