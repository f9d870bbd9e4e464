//! The skeleton every process shares: configuration pieces, telemetry, signals, health, backoff.
//!
//! Architecture invariant: no word of the domain appears here; this crate compiles without `coupon`.
//!
//! Read [`process`] first: it is the life of a process from its first line to its exit code.

mod admin;
mod backoff;
mod clock;
mod config;
pub mod fail_point;
mod health;
pub mod process;
mod report;
mod secret_files;
mod telemetry;
pub mod trace;

use mimalloc::MiMalloc;

pub use backoff::Backoff;
pub use clock::Clock;
pub use config::{LogFormat, ProcessConfig, Secret, Share};
pub use fail_point::FailPoints;
pub use health::{Health, Part};
pub use process::{Context, run};
pub use report::report;
pub use secret_files::parse;

/// Every process links this crate, and so has this allocator. A claim is some hundred small pieces of
/// memory, made by one thread and freed by another; glibc's `malloc` took a fifth of the api's time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
