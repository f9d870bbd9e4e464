//! This crate's metrics.

use runtime::metric::{Kind, Label, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [Metric; 23] = [
    CLAIMS_UNDER_WAY,
    CLAIMS_UNDER_WAY_MAX,
    GATE_VERDICTS,
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
    meaning: "claims in progress in this api",
    worry: Some("above four fifths of `coupon_claims_under_way_max`"),
};

/// At most [`crate::claims::CLAIMS_MAX`].
pub const CLAIMS_UNDER_WAY_MAX: Metric = Metric {
    name: "coupon_claims_under_way_max",
    kind: Kind::Gauge,
    unit: "claims",
    labels: &[],
    meaning: "claims in progress from which on this api answers `OVERLOADED` (`CLAIMS_UNDER_WAY_MAX`)",
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
    meaning: "the gate's answer: `admitted`, `queued`, `outbox_full` (its relays are behind), \
              `too_many_queued` (200 claims of this user wait), \
              `look_first` (MySQL is asked for the key before the claim is queued), \
              `replay` (the key is known), `key_reused`, or a \
              refusal: `not_open`, `paused`, `closed`, `ended`, `limit`, `sold_out`, \
              `insufficient`, `banned` (too many holds lapsed); `not_loaded`, `other_epoch` and `too_old` come from new gates",
    worry: Some("`not_loaded` keeps rising; any `outbox_full`"),
};

pub const LOCAL_REFUSALS: Metric = Metric {
    name: "coupon_local_refusals_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[],
    meaning: "claims of templates that are sold out which this api refused without asking the gate: \
              it knew that their users have no entry there",
    worry: None,
};

pub const SOLD_OUT_TEMPLATES: Metric = Metric {
    name: "coupon_sold_out_templates",
    kind: Kind::Gauge,
    unit: "templates",
    labels: &[],
    meaning: "sold out templates whose claims this api refuses without asking the gate, at most 256",
    worry: None,
};

pub const SOLD_OUT_BYTES: Metric = Metric {
    name: "coupon_sold_out_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    labels: &[],
    meaning: "held by this api for the users that have an entry at the gates of these templates, at \
              most 16,000,000",
    worry: None,
};

/// The outcomes are what `claims::accept` counts.
pub const ACCEPTS: Metric = Metric {
    name: "coupon_accepts_total",
    kind: Kind::Counter,
    unit: "claims",
    labels: &[Label { name: "outcome", values: &["accepted", "answered", "unknown"] }],
    meaning: "answers to claims that the gate queued: `accepted`, 202; `answered`, the key had its \
              answer in MySQL; `unknown`, how durably it is queued could not be found out, or MySQL \
              could not be asked for the key: 503, and it may land",
    worry: Some("`unknown` keeps rising: the broker, a replica of the gate, or MySQL is away"),
};

pub const LANDING_QUEUE: Metric = Metric {
    name: "coupon_landing_queue_admissions",
    kind: Kind::Gauge,
    unit: "admissions",
    labels: &[],
    meaning: "waiting for the next transaction",
    worry: Some("it stays above 1,000: MySQL is slow or unreachable"),
};

pub const BATCH_SIZE: Metric = Metric {
    name: "coupon_landing_batch_size",
    kind: Kind::Histogram,
    unit: "coupons",
    labels: &[],
    meaning: "coupons of one transaction, at most 1,000; grows with the load",
    worry: None,
};

pub const BATCH_SECONDS: Metric = Metric {
    name: "coupon_landing_batch_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "duration of one transaction with its repetitions, until the commit's answer",
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
    meaning: "repeated transactions: `conflict`, a deadlock or lock wait; `set_aside`, a stock row \
              was locked and its template is landed separately; `refused`, one of its claims could \
              not land; `coupon_id`, an id was taken; `error`, MySQL refused the statement",
    worry: Some("any `error`; many `conflict`, or `set_aside`"),
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
    meaning: "admissions that MySQL did not land. `number_taken` and `short` are disagreements \
              between Redis and MySQL (`short` is expected just after a cut of the stock). The \
              others follow from an event in between: `landed` and `landed_elsewhere` from a lost \
              answer or gate, `rejected` from a queue before, `fenced` from a slow claim, \
              `stale_epoch` from a rebuild, `not_open` from a pause or end; `retry` from no event",
    worry: Some("any `number_taken` or `short`"),
};

pub const SETTLING_QUEUE: Metric = Metric {
    name: "coupon_settling_queue_admissions",
    kind: Kind::Gauge,
    unit: "admissions",
    labels: &[],
    meaning: "landed, and not settled at the gate yet",
    worry: Some("above 10,000: the gate's Redis is slow"),
};

pub const IN_FLIGHT_OLDEST: Metric = Metric {
    name: "coupon_in_flight_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest admission in flight for longer than 10 s; 0: none. All apis see \
              the same gates: take the maximum",
    worry: Some("[ClaimsStuck](operate/runbook.md#claimsstuck) tells of more than 60"),
};

pub const STUCK: Metric = Metric {
    name: "coupon_in_flight_stuck",
    kind: Kind::Gauge,
    unit: "admissions",
    labels: &[],
    meaning: "in flight for more than a minute; take the maximum here too",
    worry: Some("above 0"),
};

pub const QUEUED_OLDEST: Metric = Metric {
    name: "coupon_queued_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the oldest queued admission without an answer, of those older than 10 s; 0: \
              none. All apis see the same gates: take the maximum",
    worry: Some("above 60: the relay, the broker, the claim landers or MySQL do not keep up"),
};

pub const RESOLVED: Metric = Metric {
    name: "coupon_resolver_actions_total",
    kind: Kind::Counter,
    unit: "admissions",
    labels: &[Label { name: "action", values: &["settled", "released", "busy", "unreadable"] }],
    meaning: "admissions whose process died or hung: `settled`, they had landed; `released`, they \
              never will; `busy`, another process was landing them; `unreadable`, this version cannot \
              read the row of a queued claim, which is left alone, at every look",
    worry: Some("it rises although no api ended; any `unreadable`"),
};

pub const MISSING_STOCK: Metric = Metric {
    name: "coupon_gate_missing_stock",
    kind: Kind::Gauge,
    unit: "coupons",
    labels: &[],
    meaning: "stock in MySQL that certainly no gate has: it is not sold until the rebuild, which \
              then begins; each api reports what its keeper sees",
    worry: Some("above 0"),
};

pub const NOT_LOADED_OPENS: Metric = Metric {
    name: "coupon_gate_not_loaded_opens_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "until the first claim window opens of those whose gate should be loaded and is not; \
              below 0: it is open; NaN: every gate is loaded",
    worry: Some("below 180: the window may open without its gate"),
};

pub const REBUILDS: Metric = Metric {
    name: "coupon_gate_rebuilds_total",
    kind: Kind::Counter,
    unit: "rebuilds",
    labels: &[Label { name: "result", values: &["open", "closed", "left", "failed"] }],
    meaning: "rebuilds of gates: `open`; `closed`, the queue of a template that is over; `left` to \
              another process; `failed`",
    worry: Some("`failed`; `open` although Redis did not restart"),
};

pub const UNREADABLE: Metric = Metric {
    name: "coupon_gate_unreadable_total",
    kind: Kind::Counter,
    unit: "gates",
    labels: &[],
    meaning: "restarted under a new epoch because a user's entry or a key could not be read; the \
              log names it",
    worry: Some("any"),
};

pub const REBUILD_SECONDS: Metric = Metric {
    name: "coupon_gate_rebuild_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &[],
    meaning: "duration of a rebuild, until the gate was open",
    worry: Some(
        "[GateNotLoaded](operate/runbook.md#gatenotloaded) tells of a gate that stays closed; this says how long each was",
    ),
};

pub const DRAIN_OLDEST: Metric = Metric {
    name: "coupon_gate_drain_oldest_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "how long the oldest rebuild of this api has been waiting for queued claims to land; 0: \
              none waits. Meanwhile its template answers `GATE_LOADING`. Of a template that is over, \
              what is beyond a minute",
    worry: Some("above 10: the relay, the broker, the claim landers or MySQL are away"),
};
