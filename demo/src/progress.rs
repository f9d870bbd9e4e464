//! Progress output with elapsed time.

use std::{
    fmt::Display,
    io::{self, Write as _},
    time::Instant,
};

/// Prints lines with the seconds since the start.
pub(crate) struct ProgressLog {
    began: Instant,
}

impl ProgressLog {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub(crate) fn say(&self, what: &str) {
        print(format_args!("[{:5.1} s] {what}", self.began.elapsed().as_secs_f64()));
    }
}

/// Prints a line. A closed pipe (`./dev demo | head`) does not stop the demo.
pub(crate) fn print(line: impl Display) {
    writeln!(io::stdout(), "{line}").ok();
}
