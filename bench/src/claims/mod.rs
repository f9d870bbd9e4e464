//! Claims over HTTP: as fast as they are landed, at a constant rate, and refused; beside a database alone and a bare route.

pub mod arrivals;
pub mod hot;
pub mod refusals;
pub mod thin;
