//! For a shop's own pages and its checkout.

pub(crate) mod page;
pub(crate) mod redemption;
