//! The tailer's metrics.

use std::sync::atomic::{AtomicBool, Ordering};

use metrics::gauge;
use runtime::metric::{Kind, Metric};

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [Metric; 20] = [
    LEADS,
    LAG,
    LAG_BYTES,
    CHECKPOINT_AGE,
    CHECKPOINT,
    BINLOG_EXPIRY,
    POSITION,
    POSITION_FILE,
    QUEUE_BYTES,
    UNACKNOWLEDGED,
    ROWS,
    TRANSACTIONS,
    EVENTS,
    DEAD_LETTERS,
    RECONNECTS,
    UNVERSIONED,
    SNAPSHOT_ROWS,
    SNAPSHOT_TABLES_LEFT,
    SNAPSHOT_PROGRESS,
    PREPARED_BEFORE,
];

pub(crate) const LEADS: Metric = Metric {
    name: "cdc_tailer_leads",
    kind: Kind::Gauge,
    unit: "0 or 1",
    labels: &[],
    meaning: "1: this tailer publishes",
    worry: Some("the sum is not 1"),
};

pub(crate) const LAG: Metric = Metric {
    name: "cdc_tailer_lag_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the last acknowledged transaction, in whole seconds; 0 when idle, NaN without \
              a broker",
    worry: Some("above 5"),
};

pub(crate) const LAG_BYTES: Metric = Metric {
    name: "cdc_tailer_lag_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    labels: &[],
    meaning: "binlog after the acknowledged position",
    worry: Some("[TailerBehind](operate/runbook.md#tailerbehind)"),
};

pub(crate) const CHECKPOINT_AGE: Metric = Metric {
    name: "cdc_tailer_checkpoint_age_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "age of the binlog position where a successor would begin; 0 when idle",
    worry: Some("above 30; half of the server's retention"),
};

pub(crate) const CHECKPOINT: Metric = Metric {
    name: "cdc_tailer_checkpoint_timestamp_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "time of the last checkpoint, since 1970",
    worry: None,
};

pub(crate) const BINLOG_EXPIRY: Metric = Metric {
    name: "cdc_tailer_binlog_expiry_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    meaning: "how long the server keeps its binlog; 0: for ever, or unknown",
    worry: Some("below a day"),
};

pub(crate) const POSITION: Metric = Metric {
    name: "cdc_tailer_position_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    labels: &[],
    meaning: "acknowledged offset in its binlog file",
    worry: None,
};

pub(crate) const POSITION_FILE: Metric = Metric {
    name: "cdc_tailer_position_file_number",
    kind: Kind::Gauge,
    unit: "number",
    labels: &[],
    meaning: "in that file's name",
    worry: None,
};

pub(crate) const QUEUE_BYTES: Metric = Metric {
    name: "cdc_tailer_queue_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    labels: &[],
    meaning: "binlog between reader and publisher, at most `QUEUE_BYTES`",
    worry: Some("[TailerBehind](operate/runbook.md#tailerbehind); full: brokers are slow"),
};

pub(crate) const UNACKNOWLEDGED: Metric = Metric {
    name: "cdc_tailer_unacknowledged_transactions",
    kind: Kind::Gauge,
    unit: "transactions",
    labels: &[],
    meaning: "sent, not yet acknowledged by the brokers",
    worry: Some("[TailerBehind](operate/runbook.md#tailerbehind); many: brokers are slow"),
};

pub(crate) const ROWS: Metric = Metric {
    name: "cdc_tailer_rows_total",
    kind: Kind::Counter,
    unit: "rows",
    labels: &[],
    meaning: "of followed tables, sent",
    worry: None,
};

pub(crate) const TRANSACTIONS: Metric = Metric {
    name: "cdc_tailer_transactions_total",
    kind: Kind::Counter,
    unit: "transactions",
    labels: &[],
    meaning: "in the binlog, including other databases'",
    worry: None,
};

pub(crate) const EVENTS: Metric = Metric {
    name: "cdc_tailer_events_total",
    kind: Kind::Counter,
    unit: "events",
    labels: &[],
    meaning: "in the binlog, including other databases'",
    worry: None,
};

pub(crate) const DEAD_LETTERS: Metric = Metric {
    name: "cdc_tailer_dead_letters_total",
    kind: Kind::Counter,
    unit: "messages",
    labels: &[],
    meaning: "dead letters: too long for a broker",
    worry: Some("any"),
};

pub(crate) const RECONNECTS: Metric = Metric {
    name: "cdc_tailer_reconnects_total",
    kind: Kind::Counter,
    unit: "connections",
    labels: &[],
    meaning: "for the binlog, after the first",
    worry: Some("more than a few an hour"),
};

pub(crate) const UNVERSIONED: Metric = Metric {
    name: "cdc_tailer_unversioned_updates_total",
    kind: Kind::Counter,
    unit: "rows",
    labels: &[],
    meaning: "of coupons that kept their version: readers ignore the update",
    worry: Some("any"),
};

pub(crate) const SNAPSHOT_ROWS: Metric = Metric {
    name: "cdc_tailer_snapshot_rows_total",
    kind: Kind::Counter,
    unit: "rows",
    labels: &[],
    meaning: "sent by snapshots",
    worry: Some("[TailerBinlogExpires](operate/runbook.md#tailerbinlogexpires)"),
};

pub(crate) const SNAPSHOT_TABLES_LEFT: Metric = Metric {
    name: "cdc_tailer_snapshot_tables_left",
    kind: Kind::Gauge,
    unit: "tables",
    labels: &[],
    meaning: "left to the running snapshot; 0: none runs",
    worry: None,
};

pub(crate) const SNAPSHOT_PROGRESS: Metric = Metric {
    name: "cdc_tailer_snapshot_progress_ratio",
    kind: Kind::Gauge,
    unit: "ratio",
    labels: &[],
    meaning: "rows sent over estimated rows; 1: done",
    worry: None,
};

pub(crate) const PREPARED_BEFORE: Metric = Metric {
    name: "cdc_tailer_prepared_before_snapshot",
    kind: Kind::Gauge,
    unit: "transactions",
    labels: &[],
    meaning: "XA, prepared before the last snapshot and still open: a commit leads to another \
              snapshot",
    worry: Some("any"),
};

/// Whether the brokers answered when they were last asked; true until they are first asked.
static BROKERS_ANSWER: AtomicBool = AtomicBool::new(true);

/// Records whether the brokers answer. While they do not, the lag is unknown.
pub(crate) fn brokers_answer(answer: bool) {
    BROKERS_ANSWER.store(answer, Ordering::Relaxed);
    if !answer {
        gauge!(LAG.name).set(f64::NAN);
    }
}

/// Sets the lag, in seconds, unless it is unknown.
pub(crate) fn set_lag(seconds: f64) {
    let is_known = BROKERS_ANSWER.load(Ordering::Relaxed);
    gauge!(LAG.name).set(if is_known { seconds } else { f64::NAN });
}
