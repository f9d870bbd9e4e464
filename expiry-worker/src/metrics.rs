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
    meaning: "from a hold's end to its coupon's committed return",
    worry: Some("p99 above 1 outside storms"),
};

pub(crate) const OVERDUE: Metric = Metric {
    name: "expiry_worker_overdue",
    kind: Kind::Gauge,
    unit: "coupons",
    labels: &[],
    meaning: "past their deadline, neither flipped nor lapsed, in this worker's shards; counted \
              every 10 s, up to 10,000 a shard",
    worry: Some("[ExpiryLate](operate/runbook.md#expirylate)"),
};

pub(crate) const OLDEST_OVERDUE: Metric = Metric {
    name: "expiry_worker_oldest_overdue_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest overdue coupon; NaN without MySQL",
    worry: Some("above 60"),
};

pub(crate) const HELD: Metric = Metric {
    name: "expiry_worker_held",
    kind: Kind::Gauge,
    unit: "coupons",
    labels: &[],
    meaning: "held for payment in this worker's shards; counted every 10 s, up to 10,000 a shard; \
              NaN without MySQL",
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
    meaning: "whose hold lapsed; units and numbers came back",
    worry: None,
};

pub(crate) const PUT_OFF: Metric = Metric {
    name: "expiry_worker_put_off_total",
    kind: Kind::Counter,
    unit: "coupons",
    labels: &[],
    meaning: "whose hold is over but cannot lapse: locked, or their template is gone or unreadable",
    worry: Some("keeps rising"),
};

pub(crate) const FLIPPING: Metric = Metric {
    name: "expiry_worker_flipping",
    kind: Kind::Gauge,
    unit: "0 or 1",
    labels: &[],
    meaning: "0: clock over 2 s from MySQL's, nothing flips or lapses",
    worry: Some("0"),
};

pub(crate) const SKEW: Metric = Metric {
    name: "expiry_worker_clock_skew_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "the worker's clock minus MySQL's",
    worry: Some("beyond ±0.25"),
};

pub(crate) const SHARDS: Metric = Metric {
    name: "expiry_worker_shards",
    kind: Kind::Gauge,
    unit: "shards",
    labels: &[],
    meaning: "of 64, owned by this worker; without a broker, as before",
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
    meaning: "unreadable, skipped",
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
    meaning: "found by sweeps, without a wake-up",
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
    meaning: "repeated, because MySQL was unreachable",
    worry: Some("rises for minutes"),
};

/// Describes the metrics for `/metrics`. A worker owns no shard before its first rebalance.
pub(crate) fn describe() {
    metric::describe(&METRICS);
    metrics::gauge!(SHARDS.name).set(0.0);
}
