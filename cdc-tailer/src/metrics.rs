//! The tailer's metrics.

/// Rows of followed tables enqueued for the broker.
pub(crate) const ROWS: &str = "cdc_tailer_rows_total";
/// Transactions seen, foreign ones included.
pub(crate) const TRANSACTIONS: &str = "cdc_tailer_transactions_total";
/// Binlog events read, foreign ones included.
pub(crate) const EVENTS: &str = "cdc_tailer_events_total";
/// Messages that were too long for a broker.
pub(crate) const DEAD_LETTERS: &str = "cdc_tailer_dead_letters_total";
/// Updates of coupons that left their version as it was.
pub(crate) const UNVERSIONED: &str = "cdc_tailer_unversioned_updates_total";
/// Rows sent by snapshots.
pub(crate) const SNAPSHOT_ROWS: &str = "cdc_tailer_snapshot_rows_total";
/// Tables that the snapshot under way has not read whole; 0: there is none.
pub(crate) const SNAPSHOT_TABLES_LEFT: &str = "cdc_tailer_snapshot_tables_left";
/// Rows sent by the snapshot under way, over those that the server guesses its tables to hold; 1: done.
pub(crate) const SNAPSHOT_PROGRESS: &str = "cdc_tailer_snapshot_progress_ratio";
/// How old the last acknowledged transaction was, by whole seconds of the binlog; 0 when idle.
pub(crate) const LAG: &str = "cdc_tailer_lag_seconds";
/// Bytes of binlog behind the position up to which all is acknowledged.
pub(crate) const LAG_BYTES: &str = "cdc_tailer_lag_bytes";
/// That position's offset in its file.
pub(crate) const POSITION: &str = "cdc_tailer_position_bytes";
/// The number in the name of its file.
pub(crate) const POSITION_FILE: &str = "cdc_tailer_position_file_number";
/// Connections opened after the first.
pub(crate) const RECONNECTS: &str = "cdc_tailer_reconnects_total";
/// Binlog bytes between the reader and the publisher.
pub(crate) const QUEUE_BYTES: &str = "cdc_tailer_queue_bytes";
/// Transactions enqueued and not all acknowledged.
pub(crate) const UNACKNOWLEDGED: &str = "cdc_tailer_unacknowledged_transactions";
/// When the last checkpoint was written, seconds since 1970: its age is now minus this.
pub(crate) const CHECKPOINT: &str = "cdc_tailer_checkpoint_timestamp_seconds";
/// How old the binlog is that a successor would begin with; 0 when idle.
pub(crate) const CHECKPOINT_AGE: &str = "cdc_tailer_checkpoint_age_seconds";
/// How long the server keeps its binlog; 0: for ever, or not known.
pub(crate) const BINLOG_EXPIRY: &str = "cdc_tailer_binlog_expiry_seconds";
/// Whether this tailer leads.
pub(crate) const LEADS: &str = "cdc_tailer_leads";

/// Describes them once, for `/metrics`.
pub(crate) fn describe() {
    let counters = [
        (ROWS, "rows of followed tables sent to the topic"),
        (TRANSACTIONS, "transactions seen in the binlog"),
        (EVENTS, "events seen in the binlog"),
        (DEAD_LETTERS, "messages too long for a broker, put aside"),
        (UNVERSIONED, "updates of coupons that left their version as it was"),
        (SNAPSHOT_ROWS, "rows sent by snapshots"),
        (RECONNECTS, "binlog connections opened again"),
    ];
    for (name, text) in counters {
        metrics::describe_counter!(name, text);
        // From the start on: a counter that appears with its first step shows no step.
        metrics::counter!(name).absolute(0);
    }
    let gauges = [
        (SNAPSHOT_TABLES_LEFT, "tables that the snapshot under way has not read whole"),
        (SNAPSHOT_PROGRESS, "rows sent over rows guessed of the snapshot under way"),
        (LAG, "age of the last acknowledged transaction in seconds"),
        (LAG_BYTES, "bytes of binlog not acknowledged yet"),
        (POSITION, "acknowledged offset in its binlog file"),
        (POSITION_FILE, "number of that binlog file"),
        (QUEUE_BYTES, "binlog bytes waiting for the publisher"),
        (UNACKNOWLEDGED, "transactions not acknowledged by the broker yet"),
        (CHECKPOINT, "unix time of the last checkpoint"),
        (CHECKPOINT_AGE, "age of the binlog that the checkpoint needs"),
        (BINLOG_EXPIRY, "how long the server keeps its binlog, 0: for ever"),
        (LEADS, "1: this tailer publishes, 0: it stands by"),
    ];
    for (name, text) in gauges {
        metrics::describe_gauge!(name, text);
    }
}
