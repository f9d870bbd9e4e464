//! Golden files in `tests/golden/`: formats fixed byte for byte. And tables in `docs/` that are written from the code.

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

/// Compares `rows` with those of a table in a page: the one that begins with the line `head`, in the section under the
/// line `heading`. The path of the page begins at the project's root.
///
/// # Panics
/// They differ. The message shows both and how to accept the change. Or the page has no such table.
pub fn golden_rows(page: &str, heading: &str, head: &str, rows: &str) {
    let path = project_root().join(page);
    let known = fs::read_to_string(&path).expect("the page can be read");
    let (before, section) =
        known.split_once(&format!("\n{heading}\n")).expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let (intro, table) =
        section.split_once(&format!("{head}\n")).expect("the section has the table");
    let length = table.find("\n\n").map_or(table.len(), |end| end + 1);
    let start = before.len() + heading.len() + 2 + intro.len() + head.len() + 1;
    let (shown, after) = known[start..].split_at(length);
    if env::var_os(ACCEPT).is_some() {
        let text = format!("{}{rows}{after}", &known[..start]);
        fs::write(&path, text).expect("the page can be written");
        return;
    }
    assert!(
        shown == rows,
        "{page}, {heading} has other rows.\nIt has:\n{shown}\nThe code has:\n{rows}\nRun the test again with \
         {ACCEPT}=1 and commit the file."
    );
}
