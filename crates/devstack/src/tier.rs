//! The two tiers of the tests. `./dev test` runs the quick one: all tests outside a module `full`. A quick test that asks
//! for what only the full tier pays for fails here, with the sentence that says where it belongs.

use std::cell::RefCell;
use std::env;
use std::path::Path;
use std::thread;

/// Part of the path of each test of the full tier: `./dev test` skips the tests that have it.
const FULL: &str = "full::";

thread_local! {
    /// The process of which the test of this thread is the fault test of the quick tier.
    static FAULT_TEST_OF: RefCell<Option<&'static str>> = const { RefCell::new(None) };
}

/// Declares the calling test the one fault test of `process` in the quick tier: from here on it may ask for
/// everything. `tests/tests/tree/tiers.rs` counts these tests.
pub fn quick_fault_test_of(process: &'static str) {
    FAULT_TEST_OF.set(Some(process));
}

/// Fails a quick test that does what only the full tier pays for. `does` completes "this test …".
///
/// # Panics
/// The caller is a test outside a module `full`, and not the fault test of a process. Threads that a test starts are
/// not recognised.
pub fn full_only(does: &str) {
    let thread = thread::current();
    let Some(test) = thread.name().filter(|name| is_test(name)) else { return };
    let allowed = test.contains(FULL) || FAULT_TEST_OF.with_borrow(Option::is_some);
    assert!(
        allowed,
        "{test}: this test {does}: move it to a module `full` of its room (CONTRIBUTING.md, \"Two tiers\")"
    );
}

/// Whether a thread of this name runs a test: libtest names it by the test's path.
fn is_test(name: &str) -> bool {
    let in_test_program = env::current_exe().is_ok_and(|program| {
        program.parent().and_then(Path::file_name).is_some_and(|of| of == "deps")
    });
    let is_path = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':'));
    in_test_program && is_path && name != "main"
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_quick_test_is_told_where_it_belongs_unless_it_is_the_fault_test_of_a_process() {
        let refused = catch_unwind(|| full_only("stops a server")).unwrap_err();
        let sentence = refused.downcast_ref::<String>().unwrap();
        assert!(
            sentence.contains("this test stops a server: move it to a module `full`"),
            "{sentence}"
        );
        quick_fault_test_of("api");
        full_only("stops a server");
    }

    mod full {
        use super::*;

        #[test]
        fn a_test_of_the_full_tier_may_ask_for_everything() {
            full_only("stops a server");
        }
    }
}
