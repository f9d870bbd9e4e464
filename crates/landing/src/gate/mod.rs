//! A template's gate in Redis: loading, keeping, rebuilding, and resolving what is left in flight.

pub(crate) mod calm;
pub mod gates;
pub mod keeper;
pub mod movements;
pub mod rebuild;
pub mod resolver;
