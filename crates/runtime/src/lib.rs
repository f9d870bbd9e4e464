//! Shared by every process: configuration, telemetry, signals, health, backoff.
//!
//! Architecture invariant: nothing here knows the domain; this crate compiles without `coupon`.
//!
//! Read [`process`] first: it describes a process from start to exit code.

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

/// The allocator of every process, since each links this crate. A claim makes some hundred small allocations, which one
/// thread makes and another frees; glibc's `malloc` took a fifth of the api's time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
