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
    meaning: "age of the lists' oldest message neither applied nor set aside, by the tailer's time \
              (unreadable: the broker's); 0 after an idle second; NaN without a broker or \
              partitions",
    worry: Some("above 30"),
};

pub(crate) const DELAY: Metric = Metric {
    name: "sync_consumer_delay_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from the tailer to the view, of each batch's newest change",
    worry: Some("[ConsumerBehind](operate/runbook.md#consumerbehind)"),
};

pub(crate) const BATCH: Metric = Metric {
    name: "sync_consumer_batch_size",
    kind: Kind::Histogram,
    unit: "messages",
    labels: &[],
    meaning: "of one batch, at most 1,000",
    worry: Some("[ConsumerBehind](operate/runbook.md#consumerbehind); 1,000: start more consumers"),
};

pub(crate) const CHANGES: Metric = Metric {
    name: "sync_consumer_changes_total",
    kind: Kind::Counter,
    unit: "changes",
    labels: &[Label { name: "outcome", values: &["applied", "not_newer", "cold"] }],
    meaning: "`applied`; `not_newer`: known already; `cold`: the list has no view",
    worry: None,
};

pub(crate) const REPAIRS: Metric = Metric {
    name: "sync_consumer_read_back_repairs_total",
    kind: Kind::Counter,
    unit: "members",
    labels: &[],
    meaning: "missing when read back, and written again",
    worry: Some("any"),
};

pub(crate) const GAPS: Metric = Metric {
    name: "sync_consumer_gaps_total",
    kind: Kind::Counter,
    unit: "gaps",
    labels: &[],
    meaning: "where the topic deleted unread messages",
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
    meaning: "dropped lists: `undecodable`: a change could not be read; `unreadable`, \
              `wrong_type`: the list was damaged, the log names the user; `gap`; `unversioned`: a \
              coupon changed and kept its version",
    worry: Some("any"),
};

pub(crate) const DEAD_LETTERS: Metric = Metric {
    name: "sync_consumer_dead_letters_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "dead letters: unreadable",
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
    meaning: "of stock, at the gate: `applied` here, because no api could; `already`; `gap`: \
              earlier ones were applied too; `not_loaded`; `unreadable`",
    worry: Some("`applied` keeps rising; any `unreadable`"),
};

pub(crate) const RETRIES: Metric = Metric {
    name: "sync_consumer_retries_total",
    kind: Kind::Counter,
    unit: "attempts",
    labels: &[],
    meaning: "repeated, because a server was unreachable",
    worry: Some("rises for minutes"),
};

/// Describes the metrics for `/metrics`. The lag is unknown until the brokers have answered.
pub(crate) fn describe() {
    metric::describe(&METRICS);
    metrics::gauge!(LAG.name).set(f64::NAN);
}
