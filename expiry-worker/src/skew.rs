//! How far our clock is from MySQL's.
//!
//! A flip binds by both clocks, so a skewed one can only make flips late, never early. Beyond a limit
//! that lateness would be silent, so it is said.

use std::time::Duration;

use chrono::TimeDelta;
use mysql_store::{MySqlConnection, StoreError, settings};
use runtime::Clock;

/// From here on the worker is not ready: clocks kept by NTP are within a few milliseconds.
pub(crate) const UNREADY: Duration = Duration::from_millis(250);

/// From here on it stops flipping: one of the clocks is plainly wrong, and people must look.
pub(crate) const STOP: Duration = Duration::from_secs(2);

/// What a measured skew means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on.
    Fine,
    /// Go on, and say so in `/readyz`.
    Unready,
    /// Stop flipping.
    Stop,
}

/// Our clock less MySQL's; zero if the question's round trip covers the difference.
pub(crate) async fn measure(
    connection: &mut MySqlConnection,
    clock: &Clock,
) -> Result<TimeDelta, StoreError> {
    let before = clock.now();
    let theirs = settings::server_time(connection).await?;
    let after = clock.now();
    Ok(if theirs < before {
        before - theirs
    } else if theirs > after {
        after - theirs
    } else {
        TimeDelta::zero()
    })
}

impl Verdict {
    /// Judges a skew.
    pub(crate) fn of(skew: TimeDelta) -> Self {
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
