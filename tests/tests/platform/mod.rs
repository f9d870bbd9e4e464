//! The processes as a whole: start, TLS, metrics, alerts, traces, what ops/ holds.

pub(crate) mod findings;
pub(crate) mod leaving;
pub(crate) mod metrics_page;
pub(crate) mod on_call;
pub(crate) mod paging;
pub(crate) mod resources;
pub(crate) mod selectors;
pub(crate) mod traces;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    mod alerts;
    pub(crate) mod boot;
    mod first_sentence;
    mod getting_started;
    pub(crate) mod metrics;
    mod migration;
    pub(crate) mod operations;
    pub(crate) mod stack;
    pub(crate) mod tls;
    mod versions;
}
