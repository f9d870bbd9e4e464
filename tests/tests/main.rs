//! Tests of the whole platform on real servers: `./dev test`, or `./dev servers up` and `cargo build --workspace &&
//! cargo test -p pipeline-tests`.
//!
//! Tests count in MySQL, never in the client.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod claims;
mod console;
mod coupons;
mod desk;
mod expiry;
mod failover;
mod holds;
mod http;
mod operators;
mod platform;
mod queued;
mod redemptions;
mod support;
mod tailer;
mod templates;
mod tree;
