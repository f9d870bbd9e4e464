//! Functions of librdkafka that the Rust client lacks. The only unsafe code of this crate: each is a single call.

use std::ffi::{CStr, CString};

use rdkafka::{ClientContext, bindings, client::Client};

/// Adds brokers to those that a client knows.
#[expect(unsafe_code, reason = "the Rust client has no such function, librdkafka has")]
pub(crate) fn add_brokers<C: ClientContext>(client: &Client<C>, brokers: &CStr) {
    // SAFETY: the pointer is valid while the client is borrowed. The function is thread-safe and copies the text, which
    // is NUL-terminated.
    unsafe { bindings::rd_kafka_brokers_add(client.native_ptr(), brokers.as_ptr()) };
}

/// Returns the offset after the last message of a partition, as the last fetch reported it; `None` before the first
/// fetch. Asks no broker.
#[expect(unsafe_code, reason = "the Rust client has no such function, librdkafka has")]
pub(crate) fn fetched_end<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partition: i32,
) -> Option<i64> {
    let topic = CString::new(topic).ok()?;
    let mut start = -1;
    let mut end = -1;
    let client = client.native_ptr();
    let first = &raw mut start;
    let last = &raw mut end;
    // SAFETY: as above. The two numbers outlive the call, which only writes them.
    let code = unsafe {
        bindings::rd_kafka_get_watermark_offsets(client, topic.as_ptr(), partition, first, last)
    };
    let is_known = code == bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && end >= 0;
    is_known.then_some(end)
}

/// Makes a producer's client fail for good, for a test.
#[cfg(feature = "verify")]
#[expect(unsafe_code, reason = "the Rust client has no such function, librdkafka has")]
pub(crate) fn fail_for_good<C: ClientContext>(client: &Client<C>) {
    let code = bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    // SAFETY: as above.
    unsafe { bindings::rd_kafka_test_fatal_error(client.native_ptr(), code, c"test".as_ptr()) };
}
