//! When to try again after a failure: waits between attempts, and who attempts.

mod backoff;
mod breakers;

pub use backoff::Backoff;
pub use breakers::Breakers;
