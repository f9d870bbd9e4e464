//! A template's gate in Redis: loading, keeping, rebuilding, and resolving admissions that are left in flight.

mod attempts;
mod audit;
pub(crate) mod drain;
mod drains;
pub mod gates;
mod goal;
pub mod keeper;
mod load;
pub mod lost_claims;
pub mod movements;
mod over;
mod queued;
pub mod rebuild;
pub mod resolver;
pub(crate) mod unchanged_gates;
mod wrong;
