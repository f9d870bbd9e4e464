//! MySQL access: SQL as free functions, one file per table or job.
//!
//! Functions take a connection, and the time as an argument, and return what they found; `None`
//! means absent. Callers retry, spawn tasks and answer requests.
//!
//! Architecture invariant: the only crate with sqlx.

mod claims;
mod code;
mod confirmed_at;
pub mod connect;
mod coupons;
mod datetime;
mod error;
mod expiries;
mod findings;
mod leases;
mod listed;
pub mod migrate;
mod operators;
mod rows;
pub mod settings;
mod templates;
#[cfg(feature = "verify")]
pub mod verify;

pub use claims::{claim, claim_states, fence, landing, look_up, lost_claim, search, story};
pub use coupons::{
    checkout, confirmation, confirmation_batch, desk, holdings, late_payment, redemption,
    redemption_batch, redemption_order, redemption_totals, returns, snapshot, status_counts,
    user_coupon, user_view, view_generation,
};
pub use expiries::{expiring, expiry, expiry_report};
pub use findings::{finding, finding_decision, reconcile_walk};
pub use leases::{lease, worker_lease};
pub use operators::{
    api_key, audit, idempotency, job, job_list, job_row, job_watch, merchant, quota,
};
pub use settings::primary_server;
pub use templates::{
    balance, history, ledger, ledger_totals, list, readable::Readable, stock, taken_numbers,
    template, template_delete, template_edit, validity_move,
};

pub use error::{DuplicateKey, StoreError};
pub use listed::Listed;
pub use sqlx::{MySqlConnection, MySqlPool};
