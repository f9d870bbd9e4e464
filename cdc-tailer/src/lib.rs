//! Reads the binlog. Writes change events to the topics. Owns the checkpoint.
//!
//! ```text
//! connection ─ packets ─▶ assembler ─ transactions ─▶ queue ─▶ publish ─ messages ─▶ topics
//!      └───────────── reader thread ─────────────┘      checkpoint ◀─ safe position ─┘
//! ```
//! The guarantee: a row committed in a followed table reaches its topic at least once, in commit order per key,
//! whatever is killed in between. The saved position is always the end of a transaction up to which everything was
//! acknowledged; the next tailer resumes there.

mod binlog;
mod cells;
mod config;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod leader;
mod memory;
mod metrics;
mod publish;
mod refusal;
mod servers;
mod source;
mod transaction;

#[cfg(test)]
mod tests;

pub use crate::metrics::METRICS;
pub use config::Config;
pub use leader::{position, run};
pub use memory::give_memory_back_after;
pub use servers::watch;
