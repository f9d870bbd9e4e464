//! Metrics of the landings of queued claims. claim-lander has them in its table.

use runtime::metric::{Kind, Label, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [Metric; 6] =
    [CLAIMS, WRONG_GATES, BATCH_SIZE, BATCH_SECONDS, RETRIES, UNREPORTED];

/// The outcomes are what `QueuedEnd::label` returns.
pub const CLAIMS: Metric = Metric {
    name: "claim_lander_claims_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[Label {
        name: "outcome",
        values: &[
            "landed",
            "landed_before",
            "sold_out",
            "insufficient_stock",
            "limit_reached",
            "paused",
            "ended",
            "failed",
            "rejected_before",
            "elsewhere",
            "fenced",
            "too_late",
            "unknown_template",
            "unlandable",
        ],
    }],
    meaning: "how queued claims ended: `landed`; rejected, as `sold_out`, `insufficient_stock` (both \
              expected just after a cut of the stock), `limit_reached`, `paused`, `ended` (both by an \
              operator) or `failed` (MySQL refuses its rows: the dead letters have it); \
              `landed_before` and `rejected_before`, a repetition; `elsewhere`, its key has its answer \
              under another claim; `fenced`; `too_late`, its epoch was given up before it came; \
              `unknown_template` and `unlandable`, without a row, in the dead letters",
    worry: Some(
        "any `failed`, `unknown_template`, `unlandable` or `limit_reached`; `sold_out` without a cut",
    ),
};

pub const WRONG_GATES: Metric = Metric {
    name: "claim_lander_wrong_gates_total",
    kind: Kind::Counter,
    unit: "gates",
    labels: &[],
    meaning: "a gate had given out a user's number that was taken: the claim lands with another, and \
              the gate begins a new epoch",
    worry: Some("any"),
};

pub const BATCH_SIZE: Metric = Metric {
    name: "claim_lander_batch_size",
    kind: Kind::Histogram,
    unit: "coupons",
    labels: &[],
    meaning: "coupons of one batch of claims; one transaction lands at most 1,000 of them",
    worry: None,
};

pub const BATCH_SECONDS: Metric = Metric {
    name: "claim_lander_batch_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "duration of one batch, until each of its claims had its end; it includes waits for MySQL",
    worry: Some(
        "[ClaimLanderBehind](operate/runbook.md#claimlanderbehind) tells; then p99 above 2 means that MySQL is slow",
    ),
};

pub const RETRIES: Metric = Metric {
    name: "claim_lander_retries_total",
    kind: Kind::Counter,
    unit: "transactions",
    labels: &[Label {
        name: "reason",
        values: &["refused", "conflict", "locked", "coupon_id", "error"],
    }],
    meaning: "repeated transactions: `refused`, one of the claims could not land; `conflict`, a \
              deadlock or lock wait; `locked`, a stock row was locked and its claims are landed last; \
              `coupon_id`, an id was taken; `error`, MySQL refused the rows of a claim",
    worry: Some("any `error`; many `conflict` or `locked`"),
};

pub const UNREPORTED: Metric = Metric {
    name: "claim_lander_unreported_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[],
    meaning: "their gate was not told how they ended, because it did not answer; the resolver finds them",
    worry: Some(
        "[AdmissionsAbandoned](operate/runbook.md#admissionsabandoned) tells once the resolver ended them",
    ),
};
