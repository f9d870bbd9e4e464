//! [`not_checked`] and [`if_installed`]: report tests that are skipped on this machine where they cannot be
//! overlooked.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
};

use crate::{Error, Result, paths, servers::mysql};

/// `./dev test` prints this file after all tests have run.
const LIST: &str = ".dev/not-checked.log";

/// Reports what this machine lacks and what is therefore not checked: on standard error, past the test's output
/// capture, and again after the test summary.
///
/// # Panics
/// The report cannot be written.
pub fn not_checked(what: &str) {
    let line = format!("NOT CHECKED: {what}\n");
    let mut list = OpenOptions::new();
    let list = list.create(true).append(true).open(paths::project_root().join(LIST));
    // One write each, so that lines of several tests do not mix.
    list.and_then(|mut list| list.write_all(line.as_bytes()))
        .and_then(|()| io::stderr().write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{LIST}: {error}"));
}

/// Returns what was started. If MySQL, which is optional, is not installed, reports that `what` is not checked
/// and returns `None`.
///
/// # Panics
/// It did not start for another reason, or the report cannot be written.
pub fn if_installed<T>(started: Result<T>, what: &str) -> Option<T> {
    match started {
        Ok(started) => Some(started),
        Err(error @ Error::NotInstalled { by: mysql::INSTALLER, .. }) => {
            not_checked(&format!("{what}: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}
