//! Shared by every process: configuration, telemetry, metrics, signals, health, backoff, circuit breakers.
//!
//! Architecture invariant: nothing here knows the domain; this crate compiles without `coupon`.
//!
//! Read [`process`] first: it describes a process from start to exit code.

mod address;
mod admin;
mod clock;
mod config;
pub mod fail_point;
mod health;
pub mod metric;
mod outage;
pub mod process;
mod report;
mod retry;
mod secret_files;
mod small_pages;
mod telemetry;
pub mod trace;
mod version;
mod watch;

use mimalloc::MiMalloc;

pub use address::address;
pub use admin::{AdminRoutes, Answering};
pub use clock::Clock;
pub use config::{LogFormat, ProcessConfig, Secret, Share};
pub use fail_point::FailPoints;
pub use health::{Health, Part};
pub use outage::Outage;
pub use process::{Context, run};
pub use report::report;
pub use retry::{Backoff, Breakers};
pub use secret_files::parse;
pub use small_pages::use_small_pages;
pub use version::{COMMIT, VERSION, version};
pub use watch::watch;

/// The allocator of every process, since each links this crate. A claim makes some hundred small allocations on one
/// thread, and another thread frees them; glibc's `malloc` took a fifth of the api's time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
