//! Merchants, keys, quotas, and the record of what they change.

pub mod api_key;
pub mod audit;
pub mod idempotency;
pub mod merchant;
pub mod quota;
