//! What is being done, and since when.

use std::time::Instant;

/// Prints lines with the seconds since the start.
pub(crate) struct Progress {
    began: Instant,
}

impl Progress {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub(crate) fn say(&self, what: &str) {
        println!("[{:5.1} s] {what}", self.began.elapsed().as_secs_f64());
    }
}
