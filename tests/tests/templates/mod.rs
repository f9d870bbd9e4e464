//! Campaigns: terms, edits, stock, lists, reports, and the shop page.

pub(crate) mod before_sale;
pub(crate) mod drafts;
pub(crate) mod editing;
pub(crate) mod exports;
pub(crate) mod lists;
pub(crate) mod movements;
pub(crate) mod reports;
pub(crate) mod shop;
pub(crate) mod terms;
pub(crate) mod validity;
