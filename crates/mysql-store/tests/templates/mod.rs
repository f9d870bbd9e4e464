//! Templates, validity and stock.

mod balance;
mod history;
mod queue;
mod stock;
mod template;
mod validity;
