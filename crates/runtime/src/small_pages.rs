//! Keeps the system from backing a process's memory with transparent huge pages.

use nix::sys::prctl::set_thp_disable;
use tracing::warn;

use crate::report;

/// Turns transparent huge pages off for this process; [`crate::run`] does so at its start. Our allocator asks for them.
/// With them, the first use of fresh memory makes the system clear two megabytes at a time. When thousands of clients
/// connected at once, they needed fresh memory, and no client was answered for up to 0.9 s
/// (docs/decisions/0086-memory-comes-in-small-pages.md). A failure costs only time, so it is logged.
pub fn use_small_pages() {
    if let Err(error) = set_thp_disable(true) {
        warn!(error = report(&error), "transparent huge pages stay on");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn huge_pages_are_off_for_the_whole_process() {
        use_small_pages();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let enabled = status.lines().find_map(|line| line.strip_prefix("THP_enabled:")).unwrap();
        assert_eq!(enabled.trim(), "0");
    }
}
