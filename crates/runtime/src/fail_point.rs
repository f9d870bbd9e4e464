//! Fail points: named places in the code where a test kills or stops the process, or holds or fails a step.
//!
//! A component that supports them holds [`FailPoints`] and calls [`FailPoints::reach`] at each point. Nothing happens
//! there unless the point is armed: by a test in the same process, through [`FailPoints::hold`] and
//! [`FailPoints::fail`], or in another process by its settings:
//!
//! ```text
//! claims.after_gate=kill#3,landing.before_begin=hold:/path/of/a/file
//! kill    the process dies (SIGKILL)       stop       the process stops (SIGSTOP) until SIGCONT
//! error   the step fails                   hold:FILE  every caller waits while FILE exists
//! #n      acts on the nth call, the first by default; `hold` on every call from then on, others once
//! ```
//! Clones share the armed points. Two tests in one process use separate values, so they do not affect each other.
//!
//! Architecture invariant: a release build contains no fail points. [`FailPoints::reach`] does nothing there, and
//! settings that would arm a point are rejected.

use std::{
    io,
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::sys::signal::{Signal, raise};
use tokio::sync::watch;
use tracing::warn;

/// Whether this build contains fail points.
const COMPILED: bool = cfg!(debug_assertions);

/// Interval between checks whether the file of a held step still exists.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The fail points of one process, or of one component in a test.
#[derive(Debug, Clone, Default)]
pub struct FailPoints {
    armed: Arc<Mutex<Vec<Armed>>>,
}

#[derive(Debug)]
struct Armed {
    point: String,
    /// Calls that pass before the action happens.
    passes: u32,
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    Signal(Signal),
    Fail,
    HoldWhile(PathBuf),
    Hold { here: Arc<watch::Sender<usize>>, open: watch::Receiver<()> },
}

/// Blocks every caller that reaches a point, until this handle is dropped.
#[derive(Debug)]
pub struct Hold {
    here: watch::Receiver<usize>,
    /// Dropping it lets all blocked callers continue.
    _open: watch::Sender<()>,
}

impl Hold {
    /// Resolves when `count` callers have reached the point.
    pub async fn reached(&mut self, count: usize) {
        // The fail point keeps the sender while this handle exists.
        drop(self.here.wait_for(|here| *here >= count).await);
    }

    /// Lets all blocked callers continue.
    pub fn let_go(self) {}
}

impl FailPoints {
    /// Blocks every caller that reaches `point` until the handle is dropped.
    pub fn hold(&self, point: &str) -> Hold {
        let (here, arrivals) = watch::channel(0);
        let (opener, open) = watch::channel(());
        self.arm(point, 0, Action::Hold { here: Arc::new(here), open });
        Hold { here: arrivals, _open: opener }
    }

    /// Makes the next call that reaches `point` fail.
    pub fn fail(&self, point: &str) {
        self.arm(point, 0, Action::Fail);
    }

    /// Performs the action that is armed at `point`, if any.
    ///
    /// # Errors
    /// The point was armed with `error`. The caller acts as if it had lost its server.
    pub async fn reach(&self, point: &'static str) -> io::Result<()> {
        if !COMPILED {
            return Ok(());
        }
        match self.due(point) {
            Some(action) => action.happen(point).await,
            None => Ok(()),
        }
    }

    fn arm(&self, point: &str, passes: u32, action: Action) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.push(Armed { point: point.to_owned(), passes, action });
    }

    /// Returns the action for this call at `point`, if it is due.
    fn due(&self, point: &str) -> Option<Action> {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.retain(|one| !one.action.is_over());
        let at = armed.iter().position(|one| one.point == point)?;
        match (&armed[at].action, armed[at].passes) {
            (Action::Hold { .. } | Action::HoldWhile(_), 0) => Some(armed[at].action.clone()),
            (_, 0) => Some(armed.remove(at).action),
            _ => {
                armed[at].passes -= 1;
                None
            }
        }
    }
}

impl Action {
    fn is_over(&self) -> bool {
        matches!(self, Self::Hold { open, .. } if open.has_changed().is_err())
    }

    async fn happen(mut self, point: &'static str) -> io::Result<()> {
        warn!(point, action = ?self, "reached a fail point");
        match &mut self {
            Self::Signal(signal) => raise(*signal).map_err(io::Error::from),
            Self::Fail => Err(io::Error::other(format!("the fail point {point}"))),
            Self::HoldWhile(file) => {
                while file.exists() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Ok(())
            }
            Self::Hold { here, open } => {
                here.send_modify(|count| *count += 1);
                // Returns an error when the handle is dropped, which is the signal to continue.
                drop(open.changed().await);
                Ok(())
            }
        }
    }
}

/// Fail point settings that were rejected.
#[derive(Debug, thiserror::Error)]
pub enum FailPointError {
    /// The text does not have the form that the module documentation describes.
    #[error("{0:?} is not POINT=kill|stop|error|hold:FILE, with #N behind it or not")]
    Unreadable(String),
    /// A release build contains no fail points.
    #[error("fail points are for debug builds; a release build carries none")]
    Release,
}

impl FromStr for FailPoints {
    type Err = FailPointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let points = Self::default();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            if !COMPILED {
                return Err(FailPointError::Release);
            }
            let (point, passes, action) =
                parse(one).ok_or_else(|| FailPointError::Unreadable(one.to_owned()))?;
            points.arm(point, passes, action);
        }
        Ok(points)
    }
}

fn parse(text: &str) -> Option<(&str, u32, Action)> {
    let (point, rest) = text.split_once('=')?;
    let (action, nth) = match rest.rsplit_once('#') {
        Some((action, nth)) => (action, nth.parse().ok()?),
        None => (rest, 1u32),
    };
    let action = match action {
        "kill" => Action::Signal(Signal::SIGKILL),
        "stop" => Action::Signal(Signal::SIGSTOP),
        "error" => Action::Fail,
        other => Action::HoldWhile(PathBuf::from(other.strip_prefix("hold:")?)),
    };
    Some((point, nth.checked_sub(1)?, action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_point_fails_the_nth_time_and_only_then() {
        let points: FailPoints = "a.b=error#3".parse().unwrap();
        let mut failed = Vec::new();
        for _ in 0..5 {
            failed.push(points.reach("a.b").await.is_err());
            points.reach("a.c").await.unwrap();
        }
        assert_eq!(failed, [false, false, true, false, false]);
    }

    #[tokio::test]
    async fn every_caller_is_held_until_the_handle_lets_go() {
        let points = FailPoints::default();
        let mut hold = points.hold("a");
        let wait = || {
            let points = points.clone();
            tokio::spawn(async move { points.reach("a").await })
        };
        let one = wait();
        let other = wait();
        hold.reached(2).await;
        assert!(!one.is_finished() && !other.is_finished());
        hold.let_go();
        one.await.unwrap().unwrap();
        other.await.unwrap().unwrap();
        points.reach("a").await.unwrap();
    }

    #[test]
    fn settings_that_say_nothing_clear_are_refused() {
        for text in ["a", "a=die", "a=kill#0", "a=kill#x", "a=hold"] {
            assert!(text.parse::<FailPoints>().is_err(), "{text}");
        }
        for text in ["", "a=kill", "a=stop#2, b=error", "a=hold:/tmp/x#2"] {
            assert!(text.parse::<FailPoints>().is_ok(), "{text}");
        }
    }
}
