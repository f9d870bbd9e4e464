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
    meaning: "queued claims by end: `landed`; `sold_out`, `insufficient_stock` (expected after a \
              cut); `limit_reached`; `paused`, `ended` by an operator; `failed`: MySQL refuses its \
              rows, a dead letter; `landed_before`, `rejected_before`: repeated; `elsewhere`: its \
              key has its answer under another claim; `fenced`; `too_late`: its epoch was given \
              up; `unknown_template`, `unlandable`: no row, a dead letter",
    worry: Some(
        "any `failed`, `unknown_template`, `unlandable` or `limit_reached`; `sold_out` without a cut",
    ),
};

pub const WRONG_GATES: Metric = Metric {
    name: "claim_lander_wrong_gates_total",
    kind: Kind::Counter,
    unit: "gates",
    labels: &[],
    meaning: "that gave out a user's number that was taken: the claim lands with another, the gate \
              gets a new epoch",
    worry: Some("any"),
};

pub const BATCH_SIZE: Metric = Metric {
    name: "claim_lander_batch_size",
    kind: Kind::Histogram,
    unit: "coupons",
    labels: &[],
    meaning: "of one batch of claims; a transaction lands at most 1,000",
    worry: None,
};

pub const BATCH_SECONDS: Metric = Metric {
    name: "claim_lander_batch_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "of one batch, until each claim's end, waits included",
    worry: Some(
        "[ClaimLanderBehind](operate/runbook.md#claimlanderbehind); p99 above 2: MySQL is slow",
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
    meaning: "repeated: `refused`: a claim could not land; `conflict`: deadlock or lock wait; \
              `locked`: a stock row was locked, its claims land last; `coupon_id`: an id was \
              taken; `error`: MySQL refused a claim's rows",
    worry: Some("any `error`; many `conflict` or `locked`"),
};

pub const UNREPORTED: Metric = Metric {
    name: "claim_lander_unreported_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[],
    meaning: "whose gate did not answer when told their end; the resolver finds them",
    worry: Some("[AdmissionsAbandoned](operate/runbook.md#admissionsabandoned)"),
};
