//! This crate's metrics.

use runtime::metric::{Kind, Label, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [Metric; 26] = [
    CLAIMS_UNDER_WAY,
    CLAIMS_UNDER_WAY_MAX,
    GATE_VERDICTS,
    GATE_FAILURES,
    LOCAL_REFUSALS,
    SOLD_OUT_TEMPLATES,
    SOLD_OUT_BYTES,
    ACCEPTS,
    LANDING_QUEUE,
    BATCH_SIZE,
    BATCH_SECONDS,
    LANDING_RETRIES,
    GUARD_REJECTIONS,
    SETTLING_QUEUE,
    IN_FLIGHT_OLDEST,
    STUCK,
    QUEUED_OLDEST,
    RESOLVED,
    MISSING_STOCK,
    NOT_LOADED_OPENS,
    FAILOVERS,
    LOST_CLAIMS,
    REBUILDS,
    UNREADABLE,
    REBUILD_SECONDS,
    DRAIN_OLDEST,
];

pub const CLAIMS_UNDER_WAY: Metric = Metric {
    name: "coupon_claims_under_way",
    kind: Kind::Gauge,
    unit: "claims",
    labels: &[],
    meaning: "in progress in this api",
    worry: Some("above 80 % of `coupon_claims_under_way_max`"),
};

/// At most [`crate::claims::CLAIMS_MAX`].
pub const CLAIMS_UNDER_WAY_MAX: Metric = Metric {
    name: "coupon_claims_under_way_max",
    kind: Kind::Gauge,
    unit: "claims",
    labels: &[],
    meaning: "`CLAIMS_UNDER_WAY_MAX`: from there on, `OVERLOADED`",
    worry: None,
};

/// The outcomes are what `claims::label::verdict` returns.
pub const GATE_VERDICTS: Metric = Metric {
    name: "coupon_gate_verdicts_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[Label {
        name: "outcome",
        values: &[
            "admitted",
            "queued",
            "outbox_full",
            "too_many_queued",
            "look_first",
            "replay",
            "key_reused",
            "not_loaded",
            "other_epoch",
            "too_old",
            "not_open",
            "paused",
            "closed",
            "ended",
            "limit",
            "sold_out",
            "insufficient",
            "banned",
        ],
    }],
    meaning: "the gate's answers: `admitted`; `queued`; `outbox_full`: relays are behind; \
              `too_many_queued`: 200 of the user's claims wait; `look_first`: MySQL is asked for \
              the key before queueing; `replay`: the key is known; `key_reused`; refused: \
              `not_open`, `paused`, `closed`, `ended`, `limit`, `sold_out`, `insufficient`, \
              `banned`; of new gates: `not_loaded`, `other_epoch`, `too_old`",
    worry: Some("`not_loaded` keeps rising; any `outbox_full`"),
};

/// The reasons are what `claims::label::gate_error` returns.
pub const GATE_FAILURES: Metric = Metric {
    name: "coupon_gate_failures_total",
    kind: Kind::Counter,
    unit: "calls",
    labels: &[Label {
        name: "why",
        values: &["unknown", "unreachable", "refused", "unfit", "unreadable"],
    }],
    meaning: "claims' calls of the gate without one of these answers, each attempt: `unknown`: none \
              came, and the claim may be admitted; `unreachable`: not sent; `refused`: Redis's \
              error, e.g. out of memory; `unfit`: address or server; `unreadable`: of another \
              version",
    worry: Some("[ApiErrors](operate/runbook.md#apierrors)"),
};

pub const LOCAL_REFUSALS: Metric = Metric {
    name: "coupon_local_refusals_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[],
    meaning: "of sold-out templates, refused without the gate, where their users have no entry",
    worry: None,
};

pub const SOLD_OUT_TEMPLATES: Metric = Metric {
    name: "coupon_sold_out_templates",
    kind: Kind::Gauge,
    unit: "templates",
    labels: &[],
    meaning: "sold out, whose claims this api refuses itself; at most 256",
    worry: None,
};

pub const SOLD_OUT_BYTES: Metric = Metric {
    name: "coupon_sold_out_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    labels: &[],
    meaning: "of this api, for users with an entry at these templates' gates; at most 16,000,000",
    worry: None,
};

/// The outcomes are what `claims::accept` counts.
pub const ACCEPTS: Metric = Metric {
    name: "coupon_accepts_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[Label { name: "outcome", values: &["accepted", "answered", "unknown"] }],
    meaning: "answers to queued claims: `accepted`: 202; `answered`: MySQL had the key's answer; \
              `unknown`: 503, and it may land",
    worry: Some("`unknown` keeps rising"),
};

pub const LANDING_QUEUE: Metric = Metric {
    name: "coupon_landing_queue_admissions",
    kind: Kind::Gauge,
    unit: "admissions",
    labels: &[],
    meaning: "waiting for the next transaction",
    worry: Some("stays above 1,000"),
};

pub const BATCH_SIZE: Metric = Metric {
    name: "coupon_landing_batch_size",
    kind: Kind::Histogram,
    unit: "coupons",
    labels: &[],
    meaning: "of one transaction, at most 1,000; grows with the load",
    worry: None,
};

pub const BATCH_SECONDS: Metric = Metric {
    name: "coupon_landing_batch_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "of one transaction with its repetitions, until the commit's answer",
    worry: Some("p99 above 0.5"),
};

pub const LANDING_RETRIES: Metric = Metric {
    name: "coupon_landing_retries_total",
    kind: Kind::Counter,
    unit: "landings",
    labels: &[Label {
        name: "reason",
        values: &["refused", "conflict", "set_aside", "coupon_id", "error"],
    }],
    meaning: "repeated transactions: `conflict`: deadlock or lock wait; `set_aside`: a stock row \
              was locked, its template lands separately; `refused`: a claim could not land; \
              `coupon_id`: an id was taken; `error`: MySQL refused the statement",
    worry: Some("any `error`; many `conflict` or `set_aside`"),
};

/// The decisions are what `claims::label::decision` returns.
pub const GUARD_REJECTIONS: Metric = Metric {
    name: "coupon_gate_db_rejections_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[Label {
        name: "decision",
        values: &[
            "landed",
            "landed_elsewhere",
            "rejected",
            "fenced",
            "stale_epoch",
            "number_taken",
            "not_open",
            "short",
            "retry",
        ],
    }],
    meaning: "admitted, not landed by MySQL. Redis and MySQL disagree: `number_taken`, `short` \
              (expected after a cut). Something came between: `landed`, `landed_elsewhere` (a lost \
              answer or gate), `rejected` (queued before), `fenced`, `stale_epoch` (rebuild), \
              `not_open` (pause, end). Nothing did: `retry`",
    worry: Some("any `number_taken` or `short`"),
};

pub const SETTLING_QUEUE: Metric = Metric {
    name: "coupon_settling_queue_admissions",
    kind: Kind::Gauge,
    unit: "admissions",
    labels: &[],
    meaning: "landed, not yet settled at the gate",
    worry: Some("above 10,000"),
};

pub const IN_FLIGHT_OLDEST: Metric = Metric {
    name: "coupon_in_flight_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest admission in flight for over 10 s, 0 without one; take the maximum \
              of all apis",
    worry: Some("above 60: [ClaimsStuck](operate/runbook.md#claimsstuck)"),
};

pub const STUCK: Metric = Metric {
    name: "coupon_in_flight_stuck",
    kind: Kind::Gauge,
    unit: "admissions",
    labels: &[],
    meaning: "in flight for over a minute; take the maximum of all apis",
    worry: Some("above 0"),
};

pub const QUEUED_OLDEST: Metric = Metric {
    name: "coupon_queued_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest queued admission without an answer for over 10 s, 0 without one; \
              take the maximum of all apis",
    worry: Some("above 60"),
};

pub const RESOLVED: Metric = Metric {
    name: "coupon_resolver_actions_total",
    kind: Kind::Counter,
    unit: "admissions",
    labels: &[Label { name: "action", values: &["settled", "released", "busy", "unreadable"] }],
    meaning: "whose process died or hung: `settled`: landed; `released`: never will; `busy`: \
              another process was landing them; `unreadable`: this version cannot read a queued \
              claim's row, at every look",
    worry: Some("rises although no api ended; any `unreadable`"),
};

pub const MISSING_STOCK: Metric = Metric {
    name: "coupon_gate_missing_stock",
    kind: Kind::Gauge,
    unit: "coupons",
    labels: &[],
    meaning: "in MySQL but certainly in no gate, as this api's keeper sees it",
    worry: Some("above 0"),
};

pub const NOT_LOADED_OPENS: Metric = Metric {
    name: "coupon_gate_not_loaded_opens_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "until the first window opens whose gate should be loaded and is not, or whose server \
              is away; negative: open; NaN: all are loaded",
    worry: Some("below 180"),
};

pub const FAILOVERS: Metric = Metric {
    name: "coupon_mysql_failovers_total",
    kind: Kind::Counter,
    unit: "failovers",
    labels: &[],
    meaning: "to another server of MySQL, noticed by this process: every gate begins anew",
    worry: None,
};

pub const LOST_CLAIMS: Metric = Metric {
    name: "coupon_lost_claims_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[],
    meaning: "answered with success, and missing in MySQL after a failover; table `lost_claim` names them",
    worry: Some("any"),
};

pub const REBUILDS: Metric = Metric {
    name: "coupon_gate_rebuilds_total",
    kind: Kind::Counter,
    unit: "rebuilds",
    labels: &[Label { name: "result", values: &["open", "closed", "left", "failed"] }],
    meaning: "of gates: `open`; `closed`: the queue of a template that is over; `left` to another \
              process; `failed`",
    worry: Some("`failed`; `open` without a restart of Redis"),
};

pub const UNREADABLE: Metric = Metric {
    name: "coupon_gate_unreadable_total",
    kind: Kind::Counter,
    unit: "gates",
    labels: &[],
    meaning: "restarted under a new epoch: a user's entry or a key was unreadable",
    worry: Some("any"),
};

pub const REBUILD_SECONDS: Metric = Metric {
    name: "coupon_gate_rebuild_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "of a rebuild, until the gate was open",
    worry: Some("[GateNotLoaded](operate/runbook.md#gatenotloaded)"),
};

pub const DRAIN_OLDEST: Metric = Metric {
    name: "coupon_gate_drain_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "how long this api's oldest rebuild has waited for queued claims, 0 without one; of a \
              template that is over: beyond a minute",
    worry: Some("above 10"),
};
