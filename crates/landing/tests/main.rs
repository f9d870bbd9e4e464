//! Landing against a real database and a real gate.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod batch;
mod claims;
mod gates;
mod harness;
mod ids;
mod rebuild;
mod resolver;
