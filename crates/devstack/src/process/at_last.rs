//! [`at_last`]: retries an operation that fails while a server restarts or fails over.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::process::child::LOOK_EVERY;

/// Longest wait: 0.5 s until the failure is detected, an election and a promotion, on a busy machine.
const AT_LAST: Duration = Duration::from_secs(30);

/// Retries `attempt` until it succeeds, as real clients do.
///
/// # Panics
/// No attempt succeeded within 30 s. The message contains the last error.
pub async fn at_last<T, E: Debug>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let mut last = None;
    let trying = async {
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) => last = Some(error),
            }
            sleep(LOOK_EVERY).await;
        }
    };
    let done = timeout(AT_LAST, trying).await;
    done.unwrap_or_else(|_| panic!("not within {AT_LAST:?}: {last:?}"))
}
