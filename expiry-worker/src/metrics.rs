//! The worker's metrics.

/// Time from a coupon's deadline to the commit of its flip.
pub(crate) const LATENESS: &str = "expiry_worker_lateness_seconds";
pub(crate) const FLIPS: &str = "expiry_worker_flips_total";
pub(crate) const WAKE_UPS: &str = "expiry_worker_wake_ups_total";
/// Wake-ups that could not be read and were skipped.
pub(crate) const UNREADABLE: &str = "expiry_worker_unreadable_wake_ups_total";
/// Coupons that only a sweep found. Anything above 0 is a defect in the wake-up path.
pub(crate) const SWEEP_FINDS: &str = "expiry_worker_sweep_finds_total";
pub(crate) const SWEEPS: &str = "expiry_worker_sweeps_total";
/// Unused coupons past their deadline in the owned shards, at the last count.
pub(crate) const OVERDUE: &str = "expiry_worker_overdue";
/// Time since the earliest deadline among them.
pub(crate) const OLDEST_OVERDUE: &str = "expiry_worker_oldest_overdue_seconds";
/// Offset of our clock from MySQL's; positive if ours is ahead.
pub(crate) const SKEW: &str = "expiry_worker_clock_skew_seconds";
/// 1 while flips are allowed, 0 while the clocks are too far apart.
pub(crate) const FLIPPING: &str = "expiry_worker_flipping";
pub(crate) const ANNOUNCED: &str = "expiry_worker_announced_total";
pub(crate) const MOVED: &str = "expiry_worker_moved_total";
pub(crate) const SHARDS: &str = "expiry_worker_shards";
/// Attempts that failed, usually because MySQL was down, and were repeated.
pub(crate) const RETRIES: &str = "expiry_worker_retries_total";

/// Describes the metrics for `/metrics`. Counters are registered at 0: a counter that first appears
/// with its first increment shows no increase.
pub(crate) fn describe() {
    for (name, text) in [
        (FLIPS, "coupons flipped to expired"),
        (WAKE_UPS, "wake-ups received"),
        (UNREADABLE, "wake-ups that could not be read"),
        (SWEEP_FINDS, "coupons that no wake-up told of"),
        (SWEEPS, "sweeps done"),
        (ANNOUNCED, "coupons announced as ending soon"),
        (MOVED, "coupons moved to their template's new validity"),
        (RETRIES, "attempts that failed and were repeated"),
    ] {
        metrics::describe_counter!(name, text);
        metrics::counter!(name).absolute(0);
    }
    for (name, text) in [
        (OVERDUE, "unused coupons past their deadline in the owned shards"),
        (OLDEST_OVERDUE, "age of the oldest overdue coupon"),
        (SKEW, "how far our clock is ahead of MySQL's"),
        (FLIPPING, "1 while the clocks agree well enough to flip, else 0"),
        (SHARDS, "shards owned"),
    ] {
        metrics::describe_gauge!(name, text);
    }
    metrics::gauge!(SHARDS).set(0.0);
    metrics::describe_histogram!(LATENESS, "from a coupon's deadline to its committed flip");
    // Registers the empty histogram.
    drop(metrics::histogram!(LATENESS));
}
