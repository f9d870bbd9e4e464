//! Deadlines.

mod expiring;
mod expiry;
mod expiry_report;
mod worker_lease;
