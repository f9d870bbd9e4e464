//! Log lines about a repeated failure: the first one, then one line a minute, and the end.
//!
//! While a server is down, every request and every attempt fails. A line for each would add no information.

use std::{
    borrow::Cow,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tracing::{info, warn};

/// Interval between the lines of one outage. Failures further apart than this are separate outages.
const SAY_EVERY: Duration = Duration::from_mins(1);

/// Records a failure of an action that is repeated, or that many tasks attempt: `seldom!("what failed", error)`. Each
/// call site has its own [`Outage`], which ends after a minute without failures.
#[macro_export]
macro_rules! seldom {
    ($what:literal, $error:expr) => {{
        static OUTAGE: $crate::Outage = $crate::Outage::new($what);
        OUTAGE.failed(&$error);
    }};
}

/// An action that may fail repeatedly for one reason.
#[derive(Debug)]
pub struct Outage {
    what: Cow<'static, str>,
    state: Mutex<Option<State>>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    since: Instant,
    /// When a line was last written.
    said: Instant,
    /// The last failure.
    last: Instant,
    /// Failures since that line.
    unsaid: u64,
}

/// A line to be written.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    First,
    Still { lasts: Duration, unsaid: u64 },
}

impl Outage {
    /// Creates an outage that has not begun. `what` begins a sentence, e.g. `a request failed at MySQL`.
    pub const fn new(what: &'static str) -> Self {
        Self { what: Cow::Borrowed(what), state: Mutex::new(None) }
    }

    /// Like [`Outage::new`], for text built at run time.
    pub fn of(what: String) -> Self {
        Self { what: Cow::Owned(what), state: Mutex::new(None) }
    }

    /// Records a failure. Writes a line if it is the first one, or if the last line is a minute old.
    pub fn failed(&self, error: &str) {
        let what = &self.what;
        match self.failed_at(Instant::now()) {
            Some(Line::First) => warn!(error, "{what}"),
            Some(Line::Still { lasts, unsaid }) => {
                let seconds = lasts.as_secs();
                warn!(
                    error,
                    outage.seconds = seconds,
                    outage.failures = unsaid,
                    "{what}, for {seconds} s now"
                );
            }
            None => {}
        }
    }

    /// Records a success. Writes a line if there were failures before.
    pub fn over(&self) {
        let Some(state) = self.lock().take() else { return };
        let seconds = state.since.elapsed().as_secs();
        info!(outage.seconds = seconds, "it works again after {seconds} s: {}", self.what);
    }

    fn failed_at(&self, now: Instant) -> Option<Line> {
        let mut state = self.lock();
        let past = |then: Instant| now.saturating_duration_since(then);
        match state.as_mut().filter(|state| past(state.last) < SAY_EVERY) {
            Some(state) => {
                (state.last, state.unsaid) = (now, state.unsaid + 1);
                if past(state.said) < SAY_EVERY {
                    return None;
                }
                let line = Line::Still { lasts: past(state.since), unsaid: state.unsaid };
                (state.said, state.unsaid) = (now, 0);
                Some(line)
            }
            None => {
                *state = Some(State { since: now, said: now, last: now, unsaid: 0 });
                Some(Line::First)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_said_at_once_and_then_each_minute() {
        let outage = Outage::new("nothing answers");
        let start = Instant::now();
        let mut said = Vec::new();
        for tenths in 0..=1_300 {
            let line = outage.failed_at(start + Duration::from_millis(100 * tenths));
            said.extend(line.map(|line| (tenths / 10, line)));
        }
        let still = |seconds, unsaid| Line::Still { lasts: Duration::from_secs(seconds), unsaid };
        assert_eq!(said, [(0, Line::First), (60, still(60, 600)), (120, still(120, 600))]);
    }

    #[test]
    fn a_failure_after_the_end_or_after_a_quiet_minute_is_a_new_outage() {
        let outage = Outage::of("it fails".to_owned());
        let start = Instant::now();
        assert_eq!(outage.failed_at(start), Some(Line::First));
        outage.over();
        assert_eq!(outage.failed_at(start + Duration::from_secs(1)), Some(Line::First));
        let later = start + Duration::from_secs(1) + SAY_EVERY;
        assert_eq!(outage.failed_at(later), Some(Line::First));
    }
}
