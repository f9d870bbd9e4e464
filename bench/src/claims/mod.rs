//! Claims over HTTP: as fast as they are landed, at a constant rate, and refused; beside a database alone and
//! a bare route. And how soon added coupons are given out by apis that refuse from memory.

pub mod arrivals;
pub mod hot;
pub mod refusals;
pub mod reopen;
pub mod thin;
