//! The tailer next to its peers: the same binlog into the same broker, one contender at a time.
//!
//! [`load`] writes parts of a binlog, [`lineup`] selects the participants, [`contender`] runs one of them, [`drain`]
//! and [`idle`] measure it; [`ceilings`] measures the underlying libraries alone.

pub mod arrivals;
pub mod broker;
pub mod ceilings;
pub mod child;
pub mod contender;
pub mod drain;
pub mod idle;
pub mod lineup;
pub mod load;
pub mod peers;
mod procedures;
pub mod usage;
