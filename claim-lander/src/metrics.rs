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
    meaning: "on this lander's partitions and not done yet; NaN while no broker answers, no partitions \
              are assigned yet, or they are lost, or left to others because MySQL does not answer: then it is unknown",
    worry: Some("it rises for minutes: MySQL is slow or unreachable, or the landers are too few"),
};

pub(crate) const OLDEST: Metric = Metric {
    name: "claim_lander_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest message that is being landed; 0: none; NaN while the partitions are left to \
              others because MySQL does not answer",
    worry: Some("above 60"),
};

pub(crate) const DELAY: Metric = Metric {
    name: "claim_lander_delay_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from the gate to the end of a claim, for each batch's oldest claim",
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
    meaning: "payments from their topic: `confirmed`; `replayed`, confirmed before; `lapsed`, too late: \
              the shop must refund; `ended`, the template's validity is over; `not_held`, a coupon \
              was cancelled, or confirmed by another payment; `reference_taken`, the reference \
              confirmed something else; `not_found`, also after a wait for its claim; \
              `unreadable`; `failed`, MySQL refuses it. All but the first two are dead letters",
    worry: Some("`lapsed` keeps rising; any `unreadable` or `failed`"),
};

pub(crate) const PAYMENT_DELAY: Metric = Metric {
    name: "claim_lander_payment_delay_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "from the publication of a payment to its end",
    worry: Some("p99 above 10: holds may lapse although they were paid for in time"),
};

pub(crate) const DEAD_LETTERS: Metric = Metric {
    name: "claim_lander_dead_letters_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "could not be read, landed or taken as payments, sent as dead letters",
    worry: Some("any"),
};

/// Describes the metrics for `/metrics`. The backlog is unknown until the brokers have answered.
pub(crate) fn describe() {
    for table in METRICS {
        metric::describe(table);
    }
    metrics::gauge!(BACKLOG.name).set(f64::NAN);
}
