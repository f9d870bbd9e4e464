//! A rehearsal of a sale on a running platform: made-up users come at a rate and claim, and the figures say what to expect of
//! the real sale. `coupon rehearse` runs it; the demo and the tests' shoppers share its tokens, latencies and lines.
//!
//! A rehearsal is an open loop: users come when it is their turn, whether or not those before them have been answered, as they
//! do in a real sale. A closed loop would slow down with the platform, and hide that.

mod answer;
mod course;
mod figures;
mod latency;
mod pace;
mod signer;
mod token;
mod visit;

pub use course::{Course, Rehearsal};
pub use figures::{SaleFigures, Sold};
pub use latency::Latency;
pub use pace::{Pace, rounded, row};
pub use signer::{SignerError, TokenSigner};
pub use token::sign;
