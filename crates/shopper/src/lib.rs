//! Shoppers over HTTP: a typed client of the api, and a crowd of clients that records its answers.
//! For the demo, tests and benches.
//!
//! [`Api`] is the operator's side, [`Shopper`] one user's. A [`Crowd`] sends many users' [`Wish`]es
//! at once and retries as a client should: with the same key, for as long as the outcome is unknown
//! or the answer is temporary. It follows a claim that was answered 202 to its end ([`Accepted`]).
//! It returns a [`Run`]: the history that the verifier compares with MySQL, and latencies.

mod answer;
mod api;
mod crowd;
mod error;
mod events;
mod holds;
mod lines;
mod queued;
mod tally;
mod user;
mod wire;

pub use answer::Answer;
pub use api::Api;
pub use crowd::{Crowd, Run, Wish};
pub use error::ShopperError;
pub use events::{Event, Events};
pub use queued::{Accepted, Fate};
pub use rehearsal::Latency;
pub use tally::Tally;
pub use user::{CouponQuery, Shopper};
pub use wire::{Claimed, Coupon, CouponPage, Discount, Issued, NewTemplate, Stock, Template};
