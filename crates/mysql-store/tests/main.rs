//! Tests of the SQL on a real server.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod claims;
mod connection;
mod coupons;
mod expiries;
mod failover;
mod findings;
mod harness;
mod lease;
mod listed;
mod migrating;
mod old_versions;
mod operators;
mod schema;
mod templates;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    mod session;
    mod tls;
    mod versions;
}
