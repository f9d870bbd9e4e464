//! The platform as a whole, on real servers: `./dev test`, or `./dev servers up` and
//! `cargo build --workspace && cargo test -p pipeline-tests`.
//!
//! Whatever a test counts, it counts in MySQL, never in the client.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod audit;
mod bad_input;
mod boot;
mod broken_requests;
mod browser;
mod campaign;
mod claim_poll;
mod claim_state;
mod collector;
mod editing;
mod epochs;
mod error_codes;
mod expiry;
mod expiry_clocks;
mod expiry_report;
mod expiry_workers;
mod faults;
mod happy;
mod headers;
mod hung_api;
mod jwks;
mod kills;
mod limits;
mod merchants;
mod metrics;
mod movements;
mod openapi;
mod operations;
mod operator_cli;
mod operator_edit;
mod operator_record;
mod operator_repair;
mod proxy;
mod races;
mod rate_limit;
mod redelivery;
mod replay;
mod selectors;
mod shop;
mod sweep;
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
mod unavailable;
mod unknown_ids;
mod use_coupon;
mod validity;
mod view;
mod view_cluster;
mod view_gaps;
mod view_generation;
mod view_pages;
mod view_readers;
mod watch_terminal;
