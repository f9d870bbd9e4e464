//! The view against a real Redis.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod apply;
mod harness;
mod page;
mod reader;
mod rebuild;
