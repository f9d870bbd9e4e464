//! [`at_last`]: what fails while a server comes back, or another one takes its place.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::child::LOOK_EVERY;

/// Longest wait: half a second of silence, an election and a promotion, on a machine that is busy.
const AT_LAST: Duration = Duration::from_secs(30);

/// Tries again and again, as those who need a server do.
///
/// # Panics
/// Nothing has succeeded within half a minute: with the last error.
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
