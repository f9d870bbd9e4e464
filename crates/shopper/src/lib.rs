//! Shoppers over HTTP: a typed client of the api, and a crowd of them that remembers what it was told.
//! For the demo, tests and benches.
//!
//! [`Api`] is the operator's side, [`Shopper`] one user's. A [`Crowd`] sends many users' [`Wish`]es at
//! once, retries as a client should (the same key again, for as long as an answer is unknown or
//! passing), and returns a [`Run`]: the history that the verifier compares with MySQL, and latencies.

mod answer;
mod api;
mod crowd;
mod error;
mod latency;
mod lines;
mod tally;
mod token;
mod user;
mod wire;

pub use answer::Answer;
pub use api::Api;
pub use crowd::{Crowd, Run, Wish};
pub use error::ShopperError;
pub use latency::Latency;
pub use tally::Tally;
pub use user::{CouponQuery, Shopper};
pub use wire::{Claimed, Coupon, CouponPage, Discount, Issued, NewTemplate, Stock, Template};
