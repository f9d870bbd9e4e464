//! The two tiers of the tests: which tests the quick one has by exception.

use std::{collections::BTreeMap, fs};

use super::tidy::rust_files;

/// How a test declares itself the fault test of a process in the quick tier.
const DECLARATION: &str = "quick_fault_test_of(\"";

/// Processes and servers whose fault has a test in the quick tier.
const PROCESSES: [&str; 8] = [
    "api",
    "outbox-relay",
    "claim-lander",
    "cdc-tailer",
    "sync-consumer",
    "expiry-worker",
    "gate",
    "view",
];

#[test]
fn each_process_has_one_fault_test_in_the_quick_tier() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files() {
        if file.ends_with("tree/tiers.rs") || file.ends_with("src/tier.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for (_, rest) in text.match_indices(DECLARATION).map(|(at, _)| text.split_at(at)) {
            let process = rest[DECLARATION.len()..].split('"').next().unwrap().to_owned();
            found.entry(process).or_default().push(file.display().to_string());
        }
    }
    for (process, files) in &found {
        assert_eq!(files.len(), 1, "{process}: one fault test is quick, the others are in `full`");
    }
    let processes: Vec<&str> = found.keys().map(String::as_str).collect();
    let mut expected = PROCESSES;
    expected.sort_unstable();
    assert_eq!(processes, expected);
}
