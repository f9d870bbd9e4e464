//! Functions of librdkafka that the Rust client lacks. The only unsafe code of this crate.

use std::{
    ffi::{CStr, CString},
    time::Duration,
};

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

/// The id of a topic: another one for each topic that was ever made.
pub(crate) type TopicId = (i64, i64);

/// Asks a broker for the ids of topics, for at most `wait`. Topics that do not exist are left out, and all if no broker
/// answers or it does not know ids.
#[expect(unsafe_code, reason = "the Rust client has no such function, librdkafka has")]
pub(crate) fn topic_ids<C: ClientContext>(
    client: &Client<C>,
    topics: &[String],
    wait: Duration,
) -> Vec<(String, TopicId)> {
    let names: Vec<CString> =
        topics.iter().filter_map(|topic| CString::new(topic.as_str()).ok()).collect();
    let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    let client = client.native_ptr();
    let none = bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
    let mut ids = Vec::new();
    // SAFETY: the client is valid while it is borrowed, and these functions are thread-safe. The collection copies the
    // names. The queue is counted: an answer that comes behind `wait` finds it closed. What the event holds is read, and
    // copied, before the event is destroyed; pointers that may be null are checked.
    unsafe {
        let wanted = bindings::rd_kafka_TopicCollection_of_topic_names(
            pointers.as_mut_ptr(),
            pointers.len(),
        );
        let queue = bindings::rd_kafka_queue_new(client);
        bindings::rd_kafka_DescribeTopics(client, wanted, std::ptr::null(), queue);
        bindings::rd_kafka_TopicCollection_destroy(wanted);
        let event = bindings::rd_kafka_queue_poll(queue, wait_ms);
        if !event.is_null() {
            let result = bindings::rd_kafka_event_DescribeTopics_result(event);
            if bindings::rd_kafka_event_error(event) == none && !result.is_null() {
                let mut count = 0;
                let all = bindings::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
                for number in 0..count {
                    let topic = *all.add(number);
                    let error = bindings::rd_kafka_TopicDescription_error(topic);
                    let id = bindings::rd_kafka_TopicDescription_topic_id(topic);
                    let is_there = error.is_null() || bindings::rd_kafka_error_code(error) == none;
                    if is_there && !id.is_null() {
                        let name = CStr::from_ptr(bindings::rd_kafka_TopicDescription_name(topic));
                        let id = (
                            bindings::rd_kafka_Uuid_most_significant_bits(id),
                            bindings::rd_kafka_Uuid_least_significant_bits(id),
                        );
                        ids.push((name.to_string_lossy().into_owned(), id));
                    }
                }
            }
            bindings::rd_kafka_event_destroy(event);
        }
        bindings::rd_kafka_queue_destroy(queue);
    }
    // A broker that does not know ids says 0.
    ids.retain(|(_, id)| *id != (0, 0));
    ids
}

/// Makes a producer's client fail for good, for a test.
#[cfg(feature = "verify")]
#[expect(unsafe_code, reason = "the Rust client has no such function, librdkafka has")]
pub(crate) fn fail_for_good<C: ClientContext>(client: &Client<C>) {
    let code = bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    // SAFETY: as above.
    unsafe { bindings::rd_kafka_test_fatal_error(client.native_ptr(), code, c"test".as_ptr()) };
}
