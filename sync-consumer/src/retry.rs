//! Retries for as long as a server is down.

use std::time::Duration;

use metrics::counter;
use runtime::{Backoff, Part};
use tokio_util::sync::CancellationToken;

use crate::metrics::RETRIES;

/// The first wait after a failed attempt; it doubles up to [`RETRY_MAX`].
pub(crate) const RETRY_MIN: Duration = Duration::from_millis(50);

/// The longest wait: how late a recovered server is noticed.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(2);

/// The attempts at one piece of work.
pub(crate) struct Retry<'a> {
    health: &'a Part,
    stop: &'a CancellationToken,
    backoff: Backoff,
}

impl<'a> Retry<'a> {
    /// Starts without a failed attempt. `health` is not ready from the first failure until the work
    /// is done.
    pub(crate) fn new(health: &'a Part, stop: &'a CancellationToken) -> Self {
        Self { health, stop, backoff: Backoff::new(RETRY_MIN, RETRY_MAX) }
    }

    /// Reports a failure and waits. Returns false if stopped meanwhile.
    pub(crate) async fn after(&mut self, failure: &anyhow::Error, what: &str) -> bool {
        counter!(RETRIES.name).increment(1);
        let error = runtime::report(failure.as_ref());
        let text = format!("{what}: {error}");
        runtime::seldom!("a step is not done and is tried again", text);
        self.health.not_ready(error);
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = self.backoff.wait() => true,
        }
    }

    /// Ends the attempts with success.
    pub(crate) fn done(self) {
        self.health.ready();
    }
}
