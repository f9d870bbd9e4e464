//! [`until`]: waits for a state that tests can only poll.

use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep, timeout};

/// Longest wait for a state. Normally it takes a second or two; a Kafka that restarts on a loaded two-core machine
/// needs twenty.
pub const STATE_MAX: Duration = Duration::from_secs(60);

/// Longest duration of one poll: a server that never answers fails the test instead of hanging it.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// First pause between polls. Each pause is half as long again as the one before, up to [`PAUSE_MAX`]: what is there at
/// once is seen at once, and what takes seconds is not asked for a hundred times.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Longest pause between polls.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Polls `look` until its result satisfies `is_there`, and returns that result.
///
/// # Panics
/// It does not within [`STATE_MAX`]. The message contains the last result.
pub async fn until<T: fmt::Debug>(
    look: impl AsyncFnMut() -> T,
    is_there: impl Fn(&T) -> bool,
) -> T {
    until_within(STATE_MAX, look, is_there).await
}

/// Like [`until`], for what takes a busy machine longer.
///
/// # Panics
/// It does not within `longest`.
pub async fn until_within<T: fmt::Debug>(
    longest: Duration,
    mut look: impl AsyncFnMut() -> T,
    is_there: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + longest;
    let mut pause = PAUSE_MIN;
    loop {
        let Ok(seen) = timeout(LOOK_MAX, look()).await else {
            panic!("one look took more than {LOOK_MAX:?}");
        };
        if is_there(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "not after {longest:?}: {seen:?}");
        sleep(pause).await;
        pause = PAUSE_MAX.min(pause * 3 / 2);
    }
}

/// Polls `is_so` until it is true.
///
/// # Panics
/// It is not within [`STATE_MAX`].
pub async fn until_true(is_so: impl AsyncFnMut() -> bool) {
    until(is_so, |is_so| *is_so).await;
}

/// Polls a list until it has an entry, and returns the first. `None` if it cannot be read at this moment.
///
/// # Panics
/// It stays empty for [`STATE_MAX`].
pub async fn until_listed<T: fmt::Debug>(look: impl AsyncFnMut() -> Option<Vec<T>>) -> T {
    let listed = until(look, |list| list.as_ref().is_some_and(|list| !list.is_empty())).await;
    listed.into_iter().flatten().next().unwrap()
}
