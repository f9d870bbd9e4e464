//! The processes as a whole: start, TLS, metrics, traces, what ops/ holds.

pub(crate) mod boot;
mod getting_started;
pub(crate) mod metrics;
pub(crate) mod metrics_page;
pub(crate) mod on_call;
pub(crate) mod operations;
pub(crate) mod resources;
pub(crate) mod selectors;
pub(crate) mod stack;
pub(crate) mod tls;
pub(crate) mod traces;
