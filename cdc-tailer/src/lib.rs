//! Reads the binlog. Writes change events to the topics. Owns the checkpoint.
//!
//! ```text
//! connection ─ packets ─▶ assembler ─ transactions ─▶ queue ─▶ publish ─ messages ─▶ topics
//!      └───────────── reader thread ─────────────┘      checkpoint ◀─ safe position ─┘
//! ```
//! The guarantee: a row committed in a followed table reaches its topic at least once, in commit
//! order per key, whatever is killed in between. The position that is saved is always a
//! transaction's end up to which everything was acknowledged; from it the next tailer goes on.

mod address;
mod assembler;
mod bytes;
mod cell;
mod checkpoint;
mod column;
mod config;
mod connection;
mod decimal;
mod encode;
mod error;
mod event;
mod metrics;
mod position;
mod preflight;
mod publish;
mod queue;
mod reader;
mod rows;
mod snapshot;
mod source;
mod statement;
mod table;
mod tailer;

pub use config::Config;
pub use tailer::run;
