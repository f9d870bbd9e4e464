//! The platform as a whole, on real servers: `./dev test`, or `./dev servers up` and
//! `cargo build --workspace && cargo test -p pipeline-tests`.
//!
//! Whatever a test counts, it counts in MySQL, never in the client.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod bad_input;
mod boot;
mod campaign;
mod epochs;
mod expiry;
mod expiry_clocks;
mod expiry_report;
mod faults;
mod happy;
mod kills;
mod movements;
mod proxy;
mod races;
mod redelivery;
mod tailer;
mod tailer_refused;
mod tidy;
mod validity;
mod view;
