//! [`Stop`]: the signals that stop a command which must clear something away first.

use std::{fs, future};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Where Linux says which signals this process ignores.
const STATUS: &str = "/proc/self/status";

/// SIGINT, SIGTERM and SIGHUP. They end the program no more once this exists, so nothing may block it.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: whoever started this ignores it, as `nohup` does.
    hang_up: Option<Signal>,
    has_come: bool,
}

impl Stop {
    /// Listens from now on. A signal that comes while nobody waits is not lost.
    ///
    /// # Errors
    /// The system has no place for a handler.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let status = fs::read_to_string(STATUS).unwrap_or_default();
        let hang_up = SignalKind::hangup();
        Ok(Self {
            interrupt: heard(SignalKind::interrupt())?,
            terminate: heard(SignalKind::terminate())?,
            hang_up: if ignores(&status, hang_up) { None } else { Some(heard(hang_up)?) },
            has_come: false,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn wait(&mut self) {
        let Self { interrupt, terminate, hang_up, has_come } = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = next(hang_up.as_mut()) => {}
        }
        *has_come = true;
    }

    /// Whether one was waited for and came.
    pub(crate) fn has_come(&self) -> bool {
        self.has_come
    }
}

fn heard(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::usage(format!("Signals cannot be heard: {error}.")))
}

async fn next(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => future::pending().await,
    }
}

/// Whether a process of this status ignores a signal. One whose status cannot be read ignores none.
fn ignores(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(kind.as_raw_value() - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).unwrap_or(0) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_the_starter_ignores_stays_ignored() {
        let status = "Name:\tcoupon\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SignalKind::hangup()));
        assert!(!ignores(status, SignalKind::terminate()));
        for other in ["", "SigIgn:\tx\n", "SigIgn:\t0000000000001000\n"] {
            assert!(!ignores(other, SignalKind::hangup()), "{other}");
        }
    }
}
