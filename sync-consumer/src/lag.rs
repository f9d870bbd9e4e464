//! The lag, in the metrics and in `/health`.

use std::time::Duration;

use metrics::gauge;
use runtime::Part;
use serde_json::json;
use topic::Assignment;

use crate::metrics::LAG;

/// Shows the lag in seconds. `None`: it is unknown.
pub(crate) fn show(lag: Option<f64>, part: &Part) {
    gauge!(LAG.name).set(lag.unwrap_or(f64::NAN));
    part.set_status(json!({ "lag_seconds": lag }));
}

/// The lag while no message comes: 0, or unknown while no broker answers or no assignment stands.
pub(crate) fn idle(is_kafka_up: bool, assignment: &Assignment) -> Option<f64> {
    (is_kafka_up && assignment.stands()).then_some(0.0)
}

/// Converts milliseconds to seconds; a negative lag becomes 0.
pub(crate) fn seconds(ms: i64) -> f64 {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0)).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_assignment_the_lag_is_unknown_although_brokers_answer() {
        assert_eq!(idle(true, &Assignment::default()), None);
    }
}
