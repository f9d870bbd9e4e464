//! MySQL access: SQL as free functions, one file per table or job.
//!
//! Functions take a connection, and the time as an argument, and return what they found; `None`
//! means absent. Callers retry, spawn tasks and answer requests.
//!
//! Architecture invariant: the only crate with sqlx.

pub mod api_key;
pub mod audit;
pub mod claim;
pub mod connect;
mod datetime;
mod error;
pub mod expiring;
pub mod expiry;
pub mod expiry_report;
pub mod idempotency;
pub mod landing;
pub mod lease;
pub mod look_up;
pub mod merchant;
pub mod migrate;
pub mod quota;
mod rows;
pub mod settings;
pub mod snapshot;
pub mod stock;
pub mod template;
pub mod template_edit;
pub mod user_coupon;
pub mod user_view;
pub mod validity_move;
#[cfg(feature = "verify")]
pub mod verify;
pub mod view_generation;
pub mod worker_lease;

pub use error::{DuplicateKey, StoreError};
pub use sqlx::{MySqlConnection, MySqlPool};
