//! Templates, their stock, their edits and their history.

pub mod balance;
pub mod history;
pub mod ledger;
pub mod ledger_totals;
pub mod list;
pub(crate) mod movement;
mod queue;
pub(crate) mod readable;
pub mod stock;
pub mod taken_numbers;
pub mod template;
pub mod template_delete;
pub mod template_edit;
pub mod validity_move;
