//! The consumer's metrics.

/// Age of the oldest event of the last batch when the view had it, since the tailer handled it.
pub(crate) const LAG: &str = "sync_consumer_lag_seconds";
/// From the tailer's handling of a batch's last event to the view having it.
pub(crate) const DELAY: &str = "sync_consumer_delay_seconds";
/// Messages of one batch.
pub(crate) const BATCH: &str = "sync_consumer_batch_size";
/// Changes, by `outcome`: applied, `not_newer`, cold.
pub(crate) const CHANGES: &str = "sync_consumer_changes_total";
/// Members that a read after their write did not find.
pub(crate) const REPAIRS: &str = "sync_consumer_read_back_repairs_total";
/// Times that messages were missing: the topic forgot them before they were read.
pub(crate) const GAPS: &str = "sync_consumer_gaps_total";
/// Views dropped, by `reason`: undecodable, `wrong_type`, gap.
pub(crate) const DROPPED_VIEWS: &str = "sync_consumer_dropped_views_total";
/// Messages put aside.
pub(crate) const DEAD_LETTERS: &str = "sync_consumer_dead_letters_total";
/// Wake-ups sent to the expiry worker.
pub(crate) const WAKE_UPS: &str = "sync_consumer_wake_ups_total";
/// Stock movements, by `outcome` at the gate: applied, already, gap, `not_loaded`, unreadable. Those
/// applied here are ones that the api could not tell the gate.
pub(crate) const MOVEMENTS: &str = "sync_consumer_movements_total";
/// Attempts at a batch or a movement that failed because a store was down.
pub(crate) const RETRIES: &str = "sync_consumer_retries_total";

/// Describes them once, for `/metrics`.
pub(crate) fn describe() {
    metrics::describe_gauge!(LAG, "age of the oldest event of the last batch when it was applied");
    metrics::describe_histogram!(DELAY, "from the tailer to the view");
    metrics::describe_histogram!(BATCH, "messages of one batch");
    metrics::describe_counter!(CHANGES, "changes by outcome");
    metrics::describe_counter!(REPAIRS, "members written again after a read did not find them");
    metrics::describe_counter!(GAPS, "places where messages were missing from the topic");
    metrics::describe_counter!(DROPPED_VIEWS, "views dropped, by reason");
    metrics::describe_counter!(DEAD_LETTERS, "messages that could not be decoded");
    metrics::describe_counter!(WAKE_UPS, "expiry wake-ups sent");
    metrics::describe_counter!(MOVEMENTS, "stock movements by outcome at the gate");
    metrics::describe_counter!(RETRIES, "attempts at a batch that failed and were repeated");
}
