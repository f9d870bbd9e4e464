//! Templates, validity and stock.

mod queue;
mod stock;
mod template;
mod validity;
