//! Reads the binlog. Writes change events to the topics. Owns the checkpoint.
//!
//! ```text
//! connection ─ packets ─▶ assembler ─ transactions ─▶ queue ─▶ publish ─ messages ─▶ topics
//!      └───────────── reader thread ─────────────┘      checkpoint ◀─ safe position ─┘
//! ```
//! The guarantee: a row committed in a followed table reaches its topic at least once, in commit order per key,
//! whatever is killed in between. The saved position is always the end of a transaction up to which everything was
//! acknowledged; the next tailer resumes there.

mod address;
mod assembler;
mod begin;
mod binlog_files;
mod bytes;
mod cell;
mod checkpoint;
mod column;
mod compressed;
mod config;
mod connection;
mod decimal;
mod dry_run;
mod encode;
mod error;
mod event;
mod fit;
#[doc(hidden)]
pub mod fuzz;
mod held;
mod history;
mod json;
mod leadership;
mod login;
mod messages;
mod metrics;
mod open;
mod outlet;
mod position;
mod preflight;
mod publish;
mod queue;
mod reader;
mod refusal;
mod resume;
mod rows;
mod schema;
mod snapshot;
mod source;
mod standing;
mod statement;
mod table;
mod tables;
mod tagged;
mod tailer;
mod term;
mod text_row;
mod wire;
mod xa;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use tailer::{position, run};
