//! How soon the allocator gives freed memory back to the system.

use std::{ffi::c_long, time::Duration};

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// `mi_option_purge_delay` in mimalloc's header; the crate has no constant for it.
const PURGE_DELAY: mi_option_t = 15;

/// Makes the allocator give freed memory back after `delay`, in whole milliseconds; its default is a second.
/// `MIMALLOC_PURGE_DELAY` in the environment takes precedence. A short delay costs time, and lowers the peak of a
/// bursty process. Call it before any other thread runs, because the allocator reads the option without a lock.
#[expect(unsafe_code, reason = "the allocator's options have no safe function")]
pub fn give_memory_back_after(delay: Duration) {
    let millis = c_long::try_from(delay.as_millis()).unwrap_or(c_long::MAX);
    // SAFETY: the option exists, and no other thread runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, millis) };
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the allocator's options have no safe function")]
    fn the_option_is_the_one_whose_default_is_a_second() {
        // SAFETY: reads a number.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, 1_000);
    }
}
