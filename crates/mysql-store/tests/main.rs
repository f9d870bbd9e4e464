//! Tests of the SQL on a real server.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod connection;
mod expiring;
mod expiry;
mod expiry_report;
mod fence;
mod harness;
mod landing;
mod lease;
mod look_up;
mod operators;
mod reread;
mod schema;
mod stock;
mod template;
mod tls;
mod user_coupon;
mod user_view;
mod validity;
mod view_generation;
mod worker_lease;
