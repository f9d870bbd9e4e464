//! Every error code in `docs/errors.md` must be named by a test of the whole platform, where it was received over
//! HTTP.

use std::{collections::BTreeSet, fs, path::Path};

use devstack::project_root;

/// Fewest codes, so that a page that cannot be parsed is noticed.
const CODES_MIN: usize = 50;

/// Returns the codes of the page's table.
fn documented() -> BTreeSet<String> {
    let page = fs::read_to_string(project_root().join("docs/errors.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split('|').next());
    cells
        .flat_map(|cell| cell.split(',').map(|code| code.trim_matches([' ', '`']).to_owned()))
        .collect()
}

/// Returns all sources below a folder as one text.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    text
}

#[test]
fn every_code_that_is_documented_is_met_by_a_test() {
    let codes = documented();
    assert!(codes.len() >= CODES_MIN, "{codes:?}");
    let tests = sources(&project_root().join("tests/tests"));
    let is_named = |code: &String| tests.contains(&format!("\"{code}\""));
    let unmet: Vec<_> = codes.iter().filter(|code| !is_named(code)).collect();
    assert!(unmet.is_empty(), "no test meets {unmet:?} of docs/errors.md");
}
