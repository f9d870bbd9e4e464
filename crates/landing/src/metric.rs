//! Names of this crate's metrics; docs/metrics.md says when to worry.

use crate::{batch, claims::label, rebuild, resolver};

/// Counter by `outcome`: answers of the gate.
pub const GATE_VERDICTS: &str = "coupon_gate_verdicts_total";
/// Gauge: claims under way in this process, at most [`crate::claims::CLAIMS_MAX`].
pub const CLAIMS_UNDER_WAY: &str = "coupon_claims_under_way";
/// Gauge: admissions that wait for a landing, those set aside included.
pub const LANDING_QUEUE: &str = "coupon_landing_queue_admissions";
/// Gauge: landed admissions not yet settled at the gate.
pub const SETTLING_QUEUE: &str = "coupon_settling_queue_admissions";
/// Histogram: coupons in one landing transaction.
pub const BATCH_SIZE: &str = "coupon_landing_batch_size";
/// Histogram: duration of landing one batch, including repetitions and waits for MySQL.
pub const BATCH_SECONDS: &str = "coupon_landing_batch_seconds";
/// Counter by `reason`: landings run again.
pub const LANDING_RETRIES: &str = "coupon_landing_retries_total";
/// Counter by `decision`: admissions that MySQL did not land. Each is a disagreement between Redis and MySQL.
pub const GUARD_REJECTIONS: &str = "coupon_gate_db_rejections_total";
/// Counter by `action`: what the resolver did with admissions left in flight.
pub const RESOLVED: &str = "coupon_resolver_actions_total";
/// Gauge: age of the oldest admission in flight beyond the resolver's grace; 0 if there is none.
pub const IN_FLIGHT_OLDEST: &str = "coupon_in_flight_oldest_seconds";
/// Gauge: admissions in flight for more than a minute.
pub const STUCK: &str = "coupon_in_flight_stuck";
/// Gauge: coupons of MySQL's stock that no gate can give out, as this process's keeper sees it.
pub const MISSING_STOCK: &str = "coupon_gate_missing_stock";
/// Counter by `result`: gate rebuilds.
pub const REBUILDS: &str = "coupon_gate_rebuilds_total";
/// Counter: gates rebuilt because an entry or a key could not be read.
pub const UNREADABLE: &str = "coupon_gate_unreadable_total";
/// Histogram: duration of a successful gate rebuild.
pub const REBUILD_SECONDS: &str = "coupon_gate_rebuild_seconds";

/// Describes the metrics once, for `/metrics`. Counters exist from the start with every label value: a counter that
/// first appears with its first increment shows no increase.
pub fn describe() {
    let counters: [(_, _, &[&'static str], _); 5] = [
        (GATE_VERDICTS, "outcome", &label::VERDICTS, "answers of the gate"),
        (LANDING_RETRIES, "reason", &batch::RETRIES, "landings run again"),
        (GUARD_REJECTIONS, "decision", &label::DECISIONS, "admissions that MySQL did not land"),
        (RESOLVED, "action", &resolver::ACTIONS, "admissions left in flight, and what was done"),
        (REBUILDS, "result", &rebuild::RESULTS, "rebuilds of gates"),
    ];
    for (name, label, words, text) in counters {
        metrics::describe_counter!(name, text);
        for word in words {
            metrics::counter!(name, label => *word).absolute(0);
        }
    }
    metrics::describe_counter!(UNREADABLE, "gates begun anew because something was unreadable");
    metrics::counter!(UNREADABLE).absolute(0);
    for (name, text) in [
        (CLAIMS_UNDER_WAY, "claims that this process is working on"),
        (LANDING_QUEUE, "admissions that wait for the next landing"),
        (SETTLING_QUEUE, "landed admissions of which the gate has not been told"),
        (IN_FLIGHT_OLDEST, "age of the oldest admission in flight for longer than 10 s, 0: none"),
        (STUCK, "admissions in flight for more than a minute"),
        (MISSING_STOCK, "coupons of MySQL's stock that the gates do not hold"),
    ] {
        metrics::describe_gauge!(name, text);
    }
    for (name, text) in [
        (BATCH_SIZE, "coupons of one landing"),
        (BATCH_SECONDS, "one landing, repetitions included"),
        (REBUILD_SECONDS, "one rebuild of a gate"),
    ] {
        metrics::describe_histogram!(name, text);
        // Registers the histogram, still empty.
        drop(metrics::histogram!(name));
    }
}
