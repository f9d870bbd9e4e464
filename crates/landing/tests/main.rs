//! Landing on a real database and a real gate.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod batch;
mod claims;
mod damage;
mod faults;
mod gates;
mod harness;
mod ids;
mod keeper;
mod limits;
mod memory;
mod outages;
mod private;
mod queue;
mod rebuild;
mod resolver;
mod returns;
mod sold_out;
mod strangers;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    mod equivalence;
    mod idle;
}
