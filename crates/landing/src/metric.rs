//! The names of this crate's metrics.

/// Counter by `outcome`: what the gate said.
pub const GATE_VERDICTS: &str = "coupon_gate_verdicts_total";
/// Histogram: coupons in one landing transaction.
pub const BATCH_SIZE: &str = "coupon_landing_batch_size";
/// Histogram: one landing, from the first statement to the commit's answer.
pub const BATCH_SECONDS: &str = "coupon_landing_batch_seconds";
/// Counter by `reason`: landings run again.
pub const LANDING_RETRIES: &str = "coupon_landing_retries_total";
/// Counter by `decision`: admissions that MySQL refused. Each is a disagreement of Redis and MySQL.
pub const GUARD_REJECTIONS: &str = "coupon_gate_db_rejections_total";
/// Counter by `action`: what the resolver did with admissions left in flight.
pub const RESOLVED: &str = "coupon_resolver_actions_total";
/// Gauge: admissions in flight for more than a minute.
pub const STUCK: &str = "coupon_in_flight_stuck";
/// Counter by `result`: gate rebuilds.
pub const REBUILDS: &str = "coupon_gate_rebuilds_total";
/// Histogram: a gate rebuild, from its bump to its opening.
pub const REBUILD_SECONDS: &str = "coupon_gate_rebuild_seconds";
