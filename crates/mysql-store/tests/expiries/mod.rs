//! Deadlines.

mod expiring;
mod expiry;
mod expiry_report;
mod holds;
mod worker_lease;
