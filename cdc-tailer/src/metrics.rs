//! The tailer's metrics.

/// Rows of followed tables enqueued for the broker.
pub(crate) const ROWS: &str = "cdc_tailer_rows_total";
/// Transactions read, foreign ones included.
pub(crate) const TRANSACTIONS: &str = "cdc_tailer_transactions_total";
/// Binlog events read, foreign ones included.
pub(crate) const EVENTS: &str = "cdc_tailer_events_total";
/// Messages that exceed the size limit.
pub(crate) const DEAD_LETTERS: &str = "cdc_tailer_dead_letters_total";
/// Updates of rows that left their version unchanged.
pub(crate) const UNVERSIONED: &str = "cdc_tailer_unversioned_updates_total";
/// Rows sent by snapshots.
pub(crate) const SNAPSHOT_ROWS: &str = "cdc_tailer_snapshot_rows_total";
/// Tables that the current snapshot has not fully read; 0 if there is no snapshot.
pub(crate) const SNAPSHOT_TABLES_LEFT: &str = "cdc_tailer_snapshot_tables_left";
/// Rows sent by the current snapshot, relative to the server's estimate for its tables; 1: done.
pub(crate) const SNAPSHOT_PROGRESS: &str = "cdc_tailer_snapshot_progress_ratio";
/// Age of the last acknowledged transaction, by whole seconds of the binlog; 0 when idle.
pub(crate) const LAG: &str = "cdc_tailer_lag_seconds";
/// Bytes of binlog after the acknowledged position.
pub(crate) const LAG_BYTES: &str = "cdc_tailer_lag_bytes";
/// Offset of the acknowledged position in its file.
pub(crate) const POSITION: &str = "cdc_tailer_position_bytes";
/// Number in the name of that file.
pub(crate) const POSITION_FILE: &str = "cdc_tailer_position_file_number";
/// Attempts to reconnect to the server.
pub(crate) const RECONNECTS: &str = "cdc_tailer_reconnects_total";
/// Binlog bytes queued between reader and publisher.
pub(crate) const QUEUE_BYTES: &str = "cdc_tailer_queue_bytes";
/// Transactions enqueued and not fully acknowledged.
pub(crate) const UNACKNOWLEDGED: &str = "cdc_tailer_unacknowledged_transactions";
/// Time of the last checkpoint, seconds since 1970; its age is now minus this.
pub(crate) const CHECKPOINT: &str = "cdc_tailer_checkpoint_timestamp_seconds";
/// Age of the oldest binlog that a successor would need; 0 when idle.
pub(crate) const CHECKPOINT_AGE: &str = "cdc_tailer_checkpoint_age_seconds";
/// Time the server keeps its binlog; 0: for ever, or unknown.
pub(crate) const BINLOG_EXPIRY: &str = "cdc_tailer_binlog_expiry_seconds";
/// Whether this tailer leads.
pub(crate) const LEADS: &str = "cdc_tailer_leads";

/// Describes the metrics once, for `/metrics`.
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
        // Counters start at 0: a counter that first appears with its first increment hides that increment.
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
