//! [`not_checked`]: what a test leaves out on this machine, where nobody overlooks it.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
};

use crate::paths;

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
