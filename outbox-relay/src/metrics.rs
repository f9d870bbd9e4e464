//! The relay's metrics.

use runtime::metric::{self, Kind, Label, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [Metric; 8] =
    [WAITING, OLDEST, RELAYED, SECONDS, REFUSED, TAKEN_OVER, WORKERS, RETRIES];

pub(crate) const WAITING: Metric = Metric {
    name: "outbox_relay_waiting",
    kind: Kind::Gauge,
    unit: "claims",
    labels: &[],
    meaning: "in all outboxes, also those that an api is about to publish; equal at every relay; \
              NaN without the gate",
    worry: Some("does not fall; at 100,000 of a template its claims are refused"),
};

pub(crate) const OLDEST: Metric = Metric {
    name: "outbox_relay_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest claim that this relay just had in hand; 0: empty outboxes",
    worry: Some("above 30"),
};

pub(crate) const RELAYED: Metric = Metric {
    name: "outbox_relay_relayed_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[],
    meaning: "published and removed from their outbox",
    worry: None,
};

pub(crate) const SECONDS: Metric = Metric {
    name: "outbox_relay_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from admission to removal from the outbox, of a batch's oldest claim",
    worry: Some("[OutboxNotRelayed](operate/runbook.md#outboxnotrelayed)"),
};

pub(crate) const REFUSED: Metric = Metric {
    name: "outbox_relay_refused_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[Label { name: "reason", values: &["unreadable", "broker"] }],
    meaning: "dead letters, lost with their gate's next epoch: `unreadable`; `broker`: it refuses \
              the message for good",
    worry: Some("any"),
};

pub(crate) const TAKEN_OVER: Metric = Metric {
    name: "outbox_relay_taken_over_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[],
    meaning: "from a worker that died or stopped",
    worry: None,
};

pub(crate) const WORKERS: Metric = Metric {
    name: "outbox_relay_workers",
    kind: Kind::Gauge,
    unit: "workers",
    labels: &[],
    meaning: "of this relay that hold a name and work",
    worry: Some("below `RELAY_WORKERS`"),
};

pub(crate) const RETRIES: Metric = Metric {
    name: "outbox_relay_retries_total",
    kind: Kind::Counter,
    unit: "attempts",
    labels: &[],
    meaning: "repeated, because a server was unreachable",
    worry: Some("rises for minutes"),
};

/// Describes the metrics for `/metrics`. What waits is unknown until the gate has answered.
pub(crate) fn describe() {
    metric::describe(&METRICS);
    metrics::gauge!(WAITING.name).set(f64::NAN);
    metrics::gauge!(OLDEST.name).set(0.0);
    metrics::gauge!(WORKERS.name).set(0.0);
}
