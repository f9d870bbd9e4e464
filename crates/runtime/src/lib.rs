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
mod telemetry;

pub use backoff::Backoff;
pub use clock::Clock;
pub use config::{LogFormat, ProcessConfig, Secret};
pub use fail_point::FailPoints;
pub use health::{Health, Part};
pub use process::{Context, run};
pub use report::report;
