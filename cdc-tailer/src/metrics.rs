//! The tailer's metrics.

/// Rows of followed tables enqueued for the broker.
pub(crate) const ROWS: &str = "cdc_tailer_rows_total";
/// Transactions seen, foreign ones included.
pub(crate) const TRANSACTIONS: &str = "cdc_tailer_transactions_total";
/// Rows sent by snapshots.
pub(crate) const SNAPSHOT_ROWS: &str = "cdc_tailer_snapshot_rows_total";
/// How old the last acknowledged transaction was, by whole seconds of the binlog; 0 when idle.
pub(crate) const LAG: &str = "cdc_tailer_lag_seconds";
/// Connections opened after the first.
pub(crate) const RECONNECTS: &str = "cdc_tailer_reconnects_total";
/// Binlog bytes between the reader and the publisher.
pub(crate) const QUEUE_BYTES: &str = "cdc_tailer_queue_bytes";
/// Transactions enqueued and not all acknowledged.
pub(crate) const UNACKNOWLEDGED: &str = "cdc_tailer_unacknowledged_transactions";
/// When the last checkpoint was written, seconds since 1970: its age is now minus this.
pub(crate) const CHECKPOINT: &str = "cdc_tailer_checkpoint_timestamp_seconds";

/// Describes them once, for `/metrics`.
pub(crate) fn describe() {
    metrics::describe_counter!(ROWS, "rows of followed tables sent to the topic");
    metrics::describe_counter!(TRANSACTIONS, "transactions seen in the binlog");
    metrics::describe_counter!(SNAPSHOT_ROWS, "rows sent by snapshots");
    metrics::describe_gauge!(LAG, "age of the last acknowledged transaction in seconds");
    metrics::describe_counter!(RECONNECTS, "binlog connections opened again");
    metrics::describe_gauge!(QUEUE_BYTES, "binlog bytes waiting for the publisher");
    metrics::describe_gauge!(UNACKNOWLEDGED, "transactions not acknowledged by the broker yet");
    metrics::describe_gauge!(CHECKPOINT, "unix time of the last checkpoint");
}
