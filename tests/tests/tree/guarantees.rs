//! The tests that documents name beside guarantees and failures exist.

use std::{collections::BTreeSet, fs};

use devstack::project_root;

use super::tidy::rust_files;

/// The documents, each of which names tests.
const DOCUMENTS: [&str; 2] = ["docs/tailer.md", "docs/failures.md"];

/// Fewest words of a test's name; shorter names in backticks are tables and columns.
const WORDS_MIN: usize = 4;

#[test]
fn each_test_that_is_named_beside_a_guarantee_or_a_failure_exists() {
    let sources: Vec<String> =
        rust_files().into_iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for document in DOCUMENTS {
        let text = fs::read_to_string(project_root().join(document)).unwrap();
        let quoted = text.split('`').skip(1).step_by(2);
        let is_name = |name: &&str| {
            name.split('_').count() >= WORDS_MIN
                && name.chars().all(|c| matches!(c, '_' | 'a'..='z' | '0'..='9'))
        };
        let mut missing: BTreeSet<&str> = quoted.filter(is_name).collect();
        assert!(!missing.is_empty(), "{document} names no test");
        for source in &sources {
            // A function, or a name in `on_each_flavor!`.
            missing.retain(|name| {
                !source.contains(&format!("fn {name}("))
                    && !source.contains(&format!("    {name},\n"))
            });
        }
        assert!(missing.is_empty(), "{document} names tests that do not exist: {missing:?}");
    }
}

#[test]
fn each_failure_has_a_test_beside_it() {
    let text = fs::read_to_string(project_root().join("docs/failures.md")).unwrap();
    let (failures, _) = text.split_once("## Fail points").unwrap();
    let rows = failures.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"));
    let without: Vec<&str> = rows
        .filter(|row| {
            let tests = row.trim_end().trim_end_matches('|').rsplit_once('|');
            tests.is_none_or(|(_, tests)| tests.trim().is_empty())
        })
        .collect();
    assert!(without.is_empty(), "docs/failures.md has rows without a test: {without:#?}");
}
