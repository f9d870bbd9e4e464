//! When to retry after a failure: waits between attempts, and which attempts may begin.

mod backoff;
mod breakers;

pub use backoff::Backoff;
pub use breakers::Breakers;
