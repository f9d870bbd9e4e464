//! The gate's scripts on a real Redis.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod damage;
mod harness;
mod life;
mod model;
mod operator;
mod outbox;
mod queued;
mod rebuild;
mod replicas;
mod returns;
mod server;
mod sold_out;
mod verdicts;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    mod cluster;
    mod sentinel;
}
