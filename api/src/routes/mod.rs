//! The handlers, by who calls them: shoppers, shops' front ends and checkouts, operators.

pub(crate) mod audit;
pub(crate) mod bodies;
pub(crate) mod holds;
pub(crate) mod operators;
pub(crate) mod shop;
pub(crate) mod shopper;
