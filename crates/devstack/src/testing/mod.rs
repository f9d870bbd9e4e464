//! What tests share: servers and what they impose, golden files, tokens, clocks.

pub(crate) mod fake_clock;
pub(crate) mod golden;
pub(crate) mod imposed;
pub(crate) mod not_checked;
pub(crate) mod test_servers;
pub mod token;
