//! The processes as a whole: start, TLS, metrics, traces, what ops/ holds.

pub(crate) mod boot;
pub(crate) mod metrics;
pub(crate) mod operations;
pub(crate) mod selectors;
pub(crate) mod tls;
pub(crate) mod traces;
