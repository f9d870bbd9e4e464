//! Claims over HTTP: as fast as they are landed (on one template and on many), at a constant rate, and refused; beside a
//! database alone, a bare route and a bare script. And how soon added coupons are given out by apis that refuse from
//! memory.

pub mod arrivals;
pub mod coalescing;
pub mod gate;
pub mod hot;
pub mod refusals;
pub mod reopen;
pub mod spread;
pub mod steady;
pub mod thin;
