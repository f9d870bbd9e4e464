//! Tests of the view on a real Redis.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod apply;
mod harness;
mod interleavings;
mod long_lists;
mod mysql;
mod page;
mod reader;
mod rebuild;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    mod cluster;
    mod failover;
    mod sentinel;
}
