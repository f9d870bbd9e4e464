//! Templates, validity and stock.

mod history;
mod queue;
mod stock;
mod template;
mod validity;
