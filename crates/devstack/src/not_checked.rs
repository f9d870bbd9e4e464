//! [`not_checked`] and [`if_installed`]: what a test leaves out on this machine, where nobody overlooks it.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
};

use crate::{Error, Result, mysql, paths};

/// What `./dev test` reads once all tests have run.
const LIST: &str = ".dev/not-checked.log";

/// Says what this machine lacks and what is not checked for that: past the capture of a test's output, and once
/// more behind the sum of all tests.
///
/// # Panics
/// It cannot be said.
pub fn not_checked(what: &str) {
    let line = format!("NOT CHECKED: {what}\n");
    let mut list = OpenOptions::new();
    let list = list.create(true).append(true).open(paths::project_root().join(LIST));
    // One write each, so that lines of many tests do not mix.
    list.and_then(|mut list| list.write_all(line.as_bytes()))
        .and_then(|()| io::stderr().write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{LIST}: {error}"));
}

/// What was started. `None`: MySQL, which not every machine has, is not on this one, and it is said that
/// `what` is not checked.
///
/// # Panics
/// It did not start for another reason, or that cannot be said.
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
