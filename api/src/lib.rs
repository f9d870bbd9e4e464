//! The api process: the HTTP API of shops' front ends, shoppers' apps and operators.
//!
//! [`serve`] wires the process, `router.rs` lists every route, and `routes/` has a room for each kind of caller. A
//! claim goes from `routes/shopper/claims.rs` to `landing::claims`.

mod access;
mod auth;
mod code;
mod config;
mod connections;
mod console;
mod exports;
mod fleet;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod jobs;
mod live;
mod metrics;
mod mysql_view_source;
mod openapi;
mod problem;
mod queue;
mod receipt;
mod router;
mod routes;
mod serve;
mod servers;
mod shop;
mod state;
mod stats;
mod story;
mod template_cache;
mod work_limits;

use std::process::ExitCode;

pub use crate::metrics::METRICS;
pub use config::Config;
pub use serve::serve;
#[doc(hidden)]
pub use stats::price;

/// Applies the migrations and prints the result.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's answer to its user")]
pub async fn migrate(config: &Config) -> ExitCode {
    match mysql_store::migrate::run(config.database_url.expose()).await {
        Ok(()) => {
            println!("the schema is up to date");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("api --migrate: {}", runtime::report(&error));
            ExitCode::FAILURE
        }
    }
}
