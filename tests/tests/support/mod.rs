//! What several tests use.

pub(crate) mod browser;
pub(crate) mod collector;
