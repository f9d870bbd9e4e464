//! The metrics of the queue of claims, as an api uses it.

use runtime::metric::{Kind, Label, Metric};

pub(crate) const APPENDS: Metric = Metric {
    name: "api_claim_appends_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[Label { name: "outcome", values: &[ACKNOWLEDGED, FAILED] }],
    meaning: "queued claims that this api appended to their topic before its 202: `acknowledged` \
              by all copies; `failed`: unknown, answered 503, left to the relay",
    worry: Some("any `failed`"),
};

pub(crate) const EVENT_STREAMS: Metric = Metric {
    name: "api_claim_event_streams",
    kind: Kind::Gauge,
    unit: "streams",
    labels: &[],
    meaning: "of claims' events, open; at 12,288 or three quarters of `CONNECTIONS_MAX`, others \
              get `OVERLOADED`",
    worry: Some("[ApiErrors](operate/runbook.md#apierrors)"),
};

/// An append that all in-sync copies have.
pub(crate) const ACKNOWLEDGED: &str = "acknowledged";

/// An append of which nothing is known.
pub(crate) const FAILED: &str = "failed";
