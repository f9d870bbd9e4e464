//! Leases: of names that one process at a time may hold, and of the worker numbers under which processes make ids.

pub mod lease;
pub mod worker_lease;
