//! Parsing of lead times, for `fuzz/` and the test that runs its corpus. Not for other callers.

use crate::config;

/// Checks that lead times that parse still mean the same after being written and parsed again.
pub fn lead_times(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(leads) = config::leads(text) else { return };
    assert!(!leads.0.contains(&0), "a lead time of nothing: {text:?}");
    let written: Vec<String> = leads.0.iter().map(u32::to_string).collect();
    assert_eq!(config::leads(&written.join(",")), Ok(leads), "{text:?} is not what it was");
}
