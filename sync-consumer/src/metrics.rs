//! The consumer's metrics.

/// Age of the oldest event of the current batch, since the tailer handled it; 0 when idle.
pub(crate) const LAG: &str = "sync_consumer_lag_seconds";
/// Time from the tailer's handling of a batch's last event until the view has it.
pub(crate) const DELAY: &str = "sync_consumer_delay_seconds";
pub(crate) const BATCH: &str = "sync_consumer_batch_size";
/// Changes, by `outcome`: applied, `not_newer`, cold.
pub(crate) const CHANGES: &str = "sync_consumer_changes_total";
/// List members that the read after their write did not find.
pub(crate) const REPAIRS: &str = "sync_consumer_read_back_repairs_total";
/// Gaps: ranges of messages that the topic deleted before they were read.
pub(crate) const GAPS: &str = "sync_consumer_gaps_total";
/// Views dropped, by `reason`: undecodable, unreadable, `wrong_type`, gap, unversioned.
pub(crate) const DROPPED_VIEWS: &str = "sync_consumer_dropped_views_total";
pub(crate) const DEAD_LETTERS: &str = "sync_consumer_dead_letters_total";
pub(crate) const WAKE_UPS: &str = "sync_consumer_wake_ups_total";
/// Stock movements, by `outcome` at the gate: applied, already, gap, `not_loaded`, unreadable.
/// Applied ones are those that the api could not send to the gate.
pub(crate) const MOVEMENTS: &str = "sync_consumer_movements_total";
/// Attempts at a batch or a movement that failed because a store was down.
pub(crate) const RETRIES: &str = "sync_consumer_retries_total";

/// Describes the metrics for `/metrics`. Counters are registered at 0 with every label: a counter
/// that first appears with its first increment shows no increase.
pub(crate) fn describe() {
    metrics::describe_gauge!(LAG, "age of the oldest event of the batch at work, 0 when idle");
    metrics::gauge!(LAG).set(0.0);
    for (name, text) in [(DELAY, "from the tailer to the view"), (BATCH, "messages of one batch")] {
        metrics::describe_histogram!(name, text);
        // Registers the empty histogram.
        drop(metrics::histogram!(name));
    }
    for (name, text) in [
        (REPAIRS, "members written again after a read did not find them"),
        (GAPS, "places where messages were missing from the topic"),
        (DEAD_LETTERS, "messages that could not be decoded"),
        (WAKE_UPS, "expiry wake-ups sent"),
        (RETRIES, "attempts at a batch that failed and were repeated"),
    ] {
        metrics::describe_counter!(name, text);
        metrics::counter!(name).absolute(0);
    }
    let labelled: [(_, _, &[&'static str], _); 3] = [
        (CHANGES, "outcome", &["applied", "not_newer", "cold"], "changes by outcome"),
        (
            DROPPED_VIEWS,
            "reason",
            &["undecodable", "unreadable", "wrong_type", "gap", "unversioned"],
            "views dropped",
        ),
        (
            MOVEMENTS,
            "outcome",
            &["applied", "already", "gap", "not_loaded", "unreadable"],
            "stock movements by outcome at the gate",
        ),
    ];
    for (name, label, words, text) in labelled {
        metrics::describe_counter!(name, text);
        for word in words {
            metrics::counter!(name, label => *word).absolute(0);
        }
    }
}
