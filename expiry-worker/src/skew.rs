//! Skew between our clock and MySQL's, and its consequences.
//!
//! A flip must be due by both clocks, so skew can only make flips late, never early. Large skew
//! would delay them silently, so beyond a limit flipping stops and reports it.

use std::time::Duration;

use chrono::TimeDelta;
use metrics::gauge;
use mysql_store::{MySqlConnection, StoreError, settings};
use runtime::{Clock, Part};
use serde_json::json;
use tracing::{error, info};

use crate::metrics::{FLIPPING, SKEW};

/// Above this skew the worker is not ready. NTP keeps clocks within a few milliseconds.
const UNREADY: Duration = Duration::from_millis(250);

/// Above this skew flipping stops: one of the clocks is plainly wrong, and an operator must act.
const STOP: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Continue.
    Fine,
    /// Continue, but report it in `/readyz`.
    Unready,
    /// Stop flipping.
    Stop,
}

/// Permits flips while the clocks agree.
pub(crate) struct ClockCheck {
    /// Ready while our clock and MySQL's agree.
    part: Part,
    /// `None` until the first comparison.
    may_flip: Option<bool>,
}

impl ClockCheck {
    pub(crate) fn new(part: Part) -> Self {
        Self { part, may_flip: None }
    }

    /// Whether the clocks agreed at the last comparison.
    pub(crate) fn may_flip(&self) -> bool {
        self.may_flip == Some(true)
    }

    /// Compares the clocks. Returns whether the permission to flip changed.
    pub(crate) async fn compare(
        &mut self,
        connection: &mut MySqlConnection,
        clock: &Clock,
    ) -> Result<bool, StoreError> {
        let skew = settings::skew(connection, || clock.now()).await?;
        let ms = skew.num_milliseconds();
        let verdict = Verdict::of(skew);
        let may_flip = verdict != Verdict::Stop;
        let changed = self.may_flip.replace(may_flip) != Some(may_flip);
        gauge!(SKEW.name).set(skew.as_seconds_f64());
        gauge!(FLIPPING.name).set(if may_flip { 1.0 } else { 0.0 });
        let ahead = skew.as_seconds_f64();
        self.part.set_status(json!({ "clock_skew_seconds": ahead, "flips": may_flip }));
        match verdict {
            Verdict::Fine => self.part.ready(),
            Verdict::Unready => {
                self.part.not_ready(format!("our clock is {ms} ms ahead of MySQL's"));
            }
            Verdict::Stop => {
                let why = format!("our clock is {ms} ms ahead of MySQL's: nothing is flipped");
                if changed {
                    error!(clock.skew_ms = ms, "{why}; set the clocks right");
                }
                self.part.not_ready(why);
            }
        }
        if may_flip && changed {
            info!(clock.skew_ms = ms, "the clocks agree: flipping");
        }
        Ok(changed)
    }
}

impl Verdict {
    fn of(skew: TimeDelta) -> Self {
        let size = skew.abs().to_std().unwrap_or(Duration::MAX);
        if size > STOP {
            Self::Stop
        } else if size > UNREADY {
            Self::Unready
        } else {
            Self::Fine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_is_judged_in_both_directions() {
        for sign in [1, -1] {
            let of = |ms: i64| Verdict::of(TimeDelta::milliseconds(sign * ms));
            assert_eq!([of(0), of(250)], [Verdict::Fine; 2]);
            assert_eq!([of(251), of(2_000)], [Verdict::Unready; 2]);
            assert_eq!([of(2_001), of(86_400_000)], [Verdict::Stop; 2]);
        }
    }
}
