//! What comes back: the ledger of movements, its ways to the gate, payments and cancellations.

use super::*;

mod balance;
pub mod ledger;
mod movements;
mod payments;
mod returns;
