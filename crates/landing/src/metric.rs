//! Names of this crate's metrics; docs/metrics.md says when to worry.

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
