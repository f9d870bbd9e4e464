//! The lander's metrics.

use runtime::metric::{self, Kind, Label, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [&[Metric]; 2] = [&OWN, &landing::queued::metric::METRICS];

const OWN: [Metric; 6] = [BACKLOG, OLDEST, DELAY, PAYMENTS, PAYMENT_DELAY, DEAD_LETTERS];

pub(crate) const BACKLOG: Metric = Metric {
    name: "claim_lander_backlog_messages",
    kind: Kind::Gauge,
    unit: "messages",
    labels: &[],
    meaning: "on this lander's partitions, not yet done; NaN without a broker or partitions, which \
              it leaves to others while MySQL is away",
    worry: Some("rises for minutes: MySQL is slow or away, or landers are too few"),
};

pub(crate) const OLDEST: Metric = Metric {
    name: "claim_lander_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest message being landed, 0 without one; NaN while others have the \
              partitions, for want of MySQL",
    worry: Some("above 60"),
};

pub(crate) const DELAY: Metric = Metric {
    name: "claim_lander_delay_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from the gate to a claim's end, of each batch's oldest claim",
    worry: None,
};

pub(crate) const PAYMENTS: Metric = Metric {
    name: "claim_lander_payments_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[Label {
        name: "outcome",
        values: &[
            "confirmed",
            "replayed",
            "lapsed",
            "ended",
            "not_held",
            "reference_taken",
            "not_found",
            "unreadable",
            "failed",
        ],
    }],
    meaning: "payments: `confirmed`; `replayed`: confirmed before. Dead letters: `lapsed`: too \
              late, the shop must refund; `ended`: validity over; `not_held`: a coupon was \
              cancelled, or confirmed by another payment; `reference_taken`: it confirmed \
              something else; `not_found`, also after a wait for its claim; `unreadable`; \
              `failed`: MySQL refuses it",
    worry: Some("`lapsed` keeps rising; any `unreadable` or `failed`"),
};

pub(crate) const PAYMENT_DELAY: Metric = Metric {
    name: "claim_lander_payment_delay_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from a payment's publication to its end",
    worry: Some("p99 above 10"),
};

pub(crate) const DEAD_LETTERS: Metric = Metric {
    name: "claim_lander_dead_letters_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "claims and payments that could not be read or carried out",
    worry: Some("any"),
};

/// Describes the metrics for `/metrics`. The backlog is unknown until the brokers have answered.
pub(crate) fn describe() {
    for table in METRICS {
        metric::describe(table);
    }
    metrics::gauge!(BACKLOG.name).set(f64::NAN);
}
