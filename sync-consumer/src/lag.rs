//! The lag, in the metrics and in `/health`.

use std::time::Duration;

use metrics::gauge;
use runtime::Part;
use serde_json::json;

use crate::metrics::LAG;

/// Shows the lag in seconds. `None`: it is unknown.
pub(crate) fn show(lag: Option<f64>, part: &Part) {
    gauge!(LAG.name).set(lag.unwrap_or(f64::NAN));
    part.set_status(json!({ "lag_seconds": lag }));
}

/// Converts milliseconds; what lies in the future is 0.
pub(crate) fn seconds(ms: i64) -> f64 {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0)).as_secs_f64()
}
