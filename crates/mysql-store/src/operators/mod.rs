//! Merchants, keys, quotas, jobs, and the record of what they change.

pub mod api_key;
pub mod audit;
pub mod idempotency;
pub mod job;
pub mod job_list;
pub mod job_row;
pub mod job_watch;
pub mod merchant;
pub mod quota;
