//! How holds end: payments, cancellations and lapses, the ledger of movements, and their delivery to the gate.

use super::*;

mod balance;
pub mod ledger;
mod movements;
mod payments;
mod returns;
