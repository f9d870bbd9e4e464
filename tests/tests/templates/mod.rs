//! Campaigns: terms, edits, stock, and the shop page.

pub(crate) mod editing;
pub(crate) mod movements;
pub(crate) mod shop;
pub(crate) mod terms;
pub(crate) mod validity;
