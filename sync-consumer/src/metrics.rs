//! The consumer's metrics.

use runtime::metric::{self, Kind, Label, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [Metric; 11] = [
    LAG,
    DELAY,
    BATCH,
    CHANGES,
    REPAIRS,
    GAPS,
    DROPPED_VIEWS,
    DEAD_LETTERS,
    WAKE_UPS,
    MOVEMENTS,
    RETRIES,
];

pub(crate) const LAG: Metric = Metric {
    name: "sync_consumer_lag_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest unfinished message of the lists: its change is not applied, or it is \
              not set aside. It counts from the tailer's time, or from the broker's \
              if the message cannot be read; 0 after a second without messages, and NaN while no \
              broker answers, no partitions are assigned yet, or they are lost: then it is unknown",
    worry: Some("above 30"),
};

pub(crate) const DELAY: Metric = Metric {
    name: "sync_consumer_delay_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from the tailer to the view, for each batch's newest change",
    worry: Some(
        "[ConsumerBehind](operate/runbook.md#consumerbehind) tells; this shows smaller delays",
    ),
};

pub(crate) const BATCH: Metric = Metric {
    name: "sync_consumer_batch_size",
    kind: Kind::Histogram,
    unit: "messages",
    labels: &[],
    meaning: "messages of one batch, at most 1,000",
    worry: Some(
        "[ConsumerBehind](operate/runbook.md#consumerbehind) tells; then 1,000 means: start more consumers",
    ),
};

pub(crate) const CHANGES: Metric = Metric {
    name: "sync_consumer_changes_total",
    kind: Kind::Counter,
    unit: "changes",
    labels: &[Label { name: "outcome", values: &["applied", "not_newer", "cold"] }],
    meaning: "`applied`; `not_newer`, already known; `cold`, that list has no view now",
    worry: None,
};

pub(crate) const REPAIRS: Metric = Metric {
    name: "sync_consumer_read_back_repairs_total",
    kind: Kind::Counter,
    unit: "members",
    labels: &[],
    meaning: "missing when they were read back, and written again",
    worry: Some("any"),
};

pub(crate) const GAPS: Metric = Metric {
    name: "sync_consumer_gaps_total",
    kind: Kind::Counter,
    unit: "gaps",
    labels: &[],
    meaning: "gaps where the topic deleted messages before they were read",
    worry: Some("any"),
};

pub(crate) const DROPPED_VIEWS: Metric = Metric {
    name: "sync_consumer_dropped_views_total",
    kind: Kind::Counter,
    unit: "views",
    labels: &[Label {
        name: "reason",
        values: &["undecodable", "unreadable", "wrong_type", "gap", "unversioned"],
    }],
    meaning: "lists dropped: `undecodable`, a change could not be read; `unreadable` and \
              `wrong_type`, the list itself was damaged, and the log names the user; `gap`; \
              `unversioned`, a coupon changed and kept its version",
    worry: Some("any"),
};

pub(crate) const DEAD_LETTERS: Metric = Metric {
    name: "sync_consumer_dead_letters_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "could not be read, sent as dead letters",
    worry: Some("any"),
};

pub(crate) const WAKE_UPS: Metric = Metric {
    name: "sync_consumer_wake_ups_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "sent to expiry-worker",
    worry: None,
};

pub(crate) const MOVEMENTS: Metric = Metric {
    name: "sync_consumer_movements_total",
    kind: Kind::Counter,
    unit: "movements",
    labels: &[Label {
        name: "outcome",
        values: &["applied", "already", "gap", "not_loaded", "unreadable"],
    }],
    meaning: "stock movements at the gate: `applied` here, because no api could; `already`; `gap`, \
              earlier ones were applied too; `not_loaded`; `unreadable`",
    worry: Some("`applied` keeps rising; any `unreadable`"),
};

pub(crate) const RETRIES: Metric = Metric {
    name: "sync_consumer_retries_total",
    kind: Kind::Counter,
    unit: "attempts",
    labels: &[],
    meaning: "failed because a server was unreachable, and repeated",
    worry: Some("it rises for minutes"),
};

/// Describes the metrics for `/metrics`. The lag is unknown until the brokers have answered.
pub(crate) fn describe() {
    metric::describe(&METRICS);
    metrics::gauge!(LAG.name).set(f64::NAN);
}
