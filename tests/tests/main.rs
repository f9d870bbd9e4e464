//! The platform as a whole, on real servers: `./dev test`, or `./dev servers up` and
//! `cargo build --workspace && cargo test -p pipeline-tests`.
//!
//! Whatever a test counts, it counts in MySQL, never in the client.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod audit;
mod bad_input;
mod boot;
mod browser;
mod campaign;
mod collector;
mod editing;
mod epochs;
mod expiry;
mod expiry_clocks;
mod expiry_report;
mod faults;
mod happy;
mod headers;
mod jwks;
mod kills;
mod merchants;
mod metrics;
mod movements;
mod openapi;
mod operations;
mod operator_cli;
mod operator_repair;
mod proxy;
mod races;
mod rate_limit;
mod redelivery;
mod replay;
mod shop;
mod tailer;
mod tailer_campaign;
mod tailer_outages;
mod tailer_refused;
mod tailer_servers;
mod tailer_snapshot;
mod terms;
mod tidy;
mod tls;
mod traces;
mod use_coupon;
mod validity;
mod view;
mod view_cluster;
mod view_readers;
