//! Golden files in `tests/golden/`: formats fixed byte for byte.

use std::{env, fs};

use crate::project_root;

/// If this variable is set (to any value), tests rewrite the files instead of comparing them.
const ACCEPT: &str = "ACCEPT_GOLDEN";

/// Compares `text` with the golden file `name`.
///
/// # Panics
/// They differ. The message shows both and how to accept the change.
pub fn golden(name: &str, text: &str) {
    let path = project_root().join("tests/golden").join(name);
    if env::var_os(ACCEPT).is_some() {
        fs::write(&path, text).expect("tests/golden can be written");
        return;
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == text,
        "tests/golden/{name} has another format.\nIt was:\n{known}\nIt is:\n{text}\nReaders of the topics \
         count on it: see \"Versions\" in docs/events.md. If it shall change, run the test again with \
         {ACCEPT}=1 and commit the file."
    );
}
