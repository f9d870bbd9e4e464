//! The worker's metrics.

use runtime::metric::{self, Kind, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [Metric; 18] = [
    LATENESS,
    LAPSE_LATENESS,
    OVERDUE,
    OLDEST_OVERDUE,
    HELD,
    FLIPS,
    LAPSED,
    PUT_OFF,
    FLIPPING,
    SKEW,
    SHARDS,
    WAKE_UPS,
    UNREADABLE,
    SWEEPS,
    SWEEP_FINDS,
    ANNOUNCED,
    MOVED,
    RETRIES,
];

pub(crate) const LATENESS: Metric = Metric {
    name: "expiry_worker_lateness_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from a coupon's deadline to its committed flip",
    worry: Some("p99 above 1 outside storms"),
};

pub(crate) const LAPSE_LATENESS: Metric = Metric {
    name: "expiry_worker_lapse_lateness_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from the end of a hold to the committed return of its coupon",
    worry: Some("p99 above 1 outside storms: returned units are on sale late"),
};

pub(crate) const OVERDUE: Metric = Metric {
    name: "expiry_worker_overdue",
    kind: Kind::Gauge,
    unit: "coupons",
    labels: &[],
    meaning: "past their deadline and neither flipped nor lapsed, in this worker's shards; counted every 10 s, up \
              to 10,000 a shard",
    worry: Some("[ExpiryLate](operate/runbook.md#expirylate) tells; this says how many are left"),
};

pub(crate) const OLDEST_OVERDUE: Metric = Metric {
    name: "expiry_worker_oldest_overdue_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest overdue coupon; NaN while MySQL does not answer: then it is \
              unknown",
    worry: Some("above 60"),
};

pub(crate) const HELD: Metric = Metric {
    name: "expiry_worker_held",
    kind: Kind::Gauge,
    unit: "coupons",
    labels: &[],
    meaning: "held until they are paid for, in this worker's shards, so the sum of all workers is the platform's; \
              counted every 10 s, up to 10,000 a shard; NaN while MySQL does not answer: then it is unknown",
    worry: None,
};

pub(crate) const FLIPS: Metric = Metric {
    name: "expiry_worker_flips_total",
    kind: Kind::Counter,
    unit: "coupons",
    labels: &[],
    meaning: "flipped to expired",
    worry: None,
};

pub(crate) const LAPSED: Metric = Metric {
    name: "expiry_worker_lapsed_total",
    kind: Kind::Counter,
    unit: "coupons",
    labels: &[],
    meaning: "held ones that lapsed, and gave back their units and numbers",
    worry: None,
};

pub(crate) const PUT_OFF: Metric = Metric {
    name: "expiry_worker_put_off_total",
    kind: Kind::Counter,
    unit: "coupons",
    labels: &[],
    meaning: "due holds that could not lapse, because they stayed locked or their template is gone or \
              cannot be read; they are tried again every 5 s, and the log has the reason",
    worry: Some("it keeps rising"),
};

pub(crate) const FLIPPING: Metric = Metric {
    name: "expiry_worker_flipping",
    kind: Kind::Gauge,
    unit: "0 or 1",
    labels: &[],
    meaning: "0: the worker's clock differs from MySQL's by more than 2 s, and it flips and lapses \
              nothing",
    worry: Some("0"),
};

pub(crate) const SKEW: Metric = Metric {
    name: "expiry_worker_clock_skew_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "how far the worker's clock is ahead of MySQL's",
    worry: Some("beyond 0.25 either way"),
};

pub(crate) const SHARDS: Metric = Metric {
    name: "expiry_worker_shards",
    kind: Kind::Gauge,
    unit: "shards",
    labels: &[],
    meaning: "owned by this worker, of 64; without a broker, those it owned before",
    worry: Some("the sum is below 64"),
};

pub(crate) const WAKE_UPS: Metric = Metric {
    name: "expiry_worker_wake_ups_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "received",
    worry: None,
};

pub(crate) const UNREADABLE: Metric = Metric {
    name: "expiry_worker_unreadable_wake_ups_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "could not be read, and were skipped",
    worry: Some("any"),
};

pub(crate) const SWEEPS: Metric = Metric {
    name: "expiry_worker_sweeps_total",
    kind: Kind::Counter,
    unit: "sweeps",
    labels: &[],
    meaning: "searches for coupons without a wake-up",
    worry: None,
};

pub(crate) const SWEEP_FINDS: Metric = Metric {
    name: "expiry_worker_sweep_finds_total",
    kind: Kind::Counter,
    unit: "coupons",
    labels: &[],
    meaning: "found by sweeps: no wake-up announced them",
    worry: Some("any"),
};

pub(crate) const ANNOUNCED: Metric = Metric {
    name: "expiry_worker_announced_total",
    kind: Kind::Counter,
    unit: "coupons",
    labels: &[],
    meaning: "announced as ending soon",
    worry: None,
};

pub(crate) const MOVED: Metric = Metric {
    name: "expiry_worker_moved_total",
    kind: Kind::Counter,
    unit: "coupons",
    labels: &[],
    meaning: "moved to their template's new validity",
    worry: None,
};

pub(crate) const RETRIES: Metric = Metric {
    name: "expiry_worker_retries_total",
    kind: Kind::Counter,
    unit: "attempts",
    labels: &[],
    meaning: "failed because MySQL was unreachable, and repeated",
    worry: Some("it rises for minutes"),
};

/// Describes the metrics for `/metrics`. A worker owns no shard before its first rebalance.
pub(crate) fn describe() {
    metric::describe(&METRICS);
    metrics::gauge!(SHARDS.name).set(0.0);
}
