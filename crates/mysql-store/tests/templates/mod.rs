//! Templates, validity and stock.

mod stock;
mod template;
mod validity;
