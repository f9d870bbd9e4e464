//! What operators look at before a sale: whether all is ready, and what shoppers will see.

pub(crate) mod preview;
pub(crate) mod readiness;
