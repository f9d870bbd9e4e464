//! Closing a client, which may never end.
//!
//! While a member leaves its group, librdkafka 2.12 drops a request that arrives late without answering it
//! (`rd_kafka_cgrp_op_serve` once the group has terminated), and the thread that sent it waits for ever. Serving a
//! rebalance sends such requests, and a client that is dropped serves those that it still has. A thread that waits so
//! uses nothing of the client any more, so it is left behind.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use tokio::runtime::Handle;
use tracing::warn;

/// How long a client may take to end: longer than the last commit, which ends with the socket's timeout of 10 s, and
/// shorter than the 30 s after which Kubernetes kills a process that was asked to stop.
const CLOSING_MAX: Duration = Duration::from_secs(15);

/// Drops a client on a thread of its own, and waits until it has ended, at most [`CLOSING_MAX`]. Blocks.
pub(crate) fn close<T: Send + 'static>(client: T) {
    if !ends_within(client, CLOSING_MAX) {
        warn!(within = ?CLOSING_MAX, "a client of Kafka did not end and is left behind");
    }
}

/// Drops a client on another thread, because closing it blocks for a tenth of a second or more. The runtime waits for
/// this: a client's threads must not outlive the process's libraries.
pub(crate) fn close_aside<T: Send + 'static>(client: T) {
    match Handle::try_current() {
        // A runtime that is shutting down drops the closure, and with it the client.
        Ok(runtime) => drop(runtime.spawn_blocking(move || close(client))),
        Err(_) => drop(client),
    }
}

/// Returns whether the value was dropped in time. Otherwise its thread is left to itself.
fn ends_within<T: Send + 'static>(value: T, most: Duration) -> bool {
    let (dropped, end) = mpsc::channel::<()>();
    let closing = thread::Builder::new().name("closing".to_owned());
    let begun = closing.spawn(move || {
        drop(value);
        drop(dropped);
    });
    // Without a thread the value was dropped here.
    begun.is_err() || end.recv_timeout(most) == Err(RecvTimeoutError::Disconnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends only once the other side is gone.
    struct Ending(mpsc::Receiver<()>);

    impl Drop for Ending {
        fn drop(&mut self) {
            _ = self.0.recv();
        }
    }

    #[test]
    fn a_client_that_never_ends_is_waited_for_no_longer_than_allowed() {
        let (keeps, never) = mpsc::channel();
        assert!(!ends_within(Ending(never), Duration::from_millis(10)));
        drop(keeps);
        let (keeps, soon) = mpsc::channel();
        drop(keeps);
        assert!(ends_within(Ending(soon), CLOSING_MAX));
    }
}
