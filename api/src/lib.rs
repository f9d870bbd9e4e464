//! The api process: the HTTP API of shops' front ends, shoppers' apps and operators.
//!
//! [`serve`] wires the process, `router.rs` lists every route, and `claims.rs` takes in claims, which `landing::claims`
//! processes.

mod api_key;
mod api_key_json;
mod api_keys;
mod arriving;
mod audit;
mod auth;
mod body;
mod claim_poll;
mod claim_state;
mod claims;
mod client_address;
mod config;
mod connections;
mod cors;
mod coupon_use;
mod coupons;
mod cursor;
mod dead_letters;
mod docs_page;
mod expiry;
mod front;
#[doc(hidden)]
pub mod fuzz;
mod headers;
mod hop;
#[cfg(test)]
mod hostile_clients;
mod idempotency;
mod instant;
mod jwks;
mod key_cache;
mod limits;
mod line;
mod listener;
mod merchants;
mod metrics;
mod open_files;
mod openapi;
mod packed;
mod precondition;
mod problem;
mod quotas;
mod rate_limit;
mod redemption;
mod repair;
mod router;
mod secrets;
mod serve;
mod shop;
mod shop_stock;
#[cfg(test)]
mod slow_clients;
mod state;
mod stock;
mod stock_movements;
mod template_cache;
mod template_edit;
mod template_json;
mod templates;
mod tokens;
mod truth;
mod untaken;
mod upkeep;
mod validity;

use std::process::ExitCode;

pub use config::Config;
pub use serve::serve;

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
