//! Every decoder of the platform for bytes that come from outside, by name: the fuzz targets call them,
//! and so does the test that runs the seeds (`tests/tests/fuzz.rs`), which takes this file in.

use std::fmt::Debug;

use cdc_tailer::fuzz as tailer;
use serde::{Serialize, de::DeserializeOwned};
use topic::{
    Event, ExpiringSoon, ExpiryWakeUp, StockMovementRow, TemplateRow, UserCouponRow, decode,
};

/// What a target does with its bytes: it fails only where a promise is broken.
pub type Target = fn(&[u8]);

/// The targets. Each has a file in `fuzz_targets/` and a folder in `seeds/`.
pub const TARGETS: [(&str, Target); 15] = [
    ("binlog", tailer::binlog),
    ("cell", tailer::cell),
    ("checkpoint_record", tailer::checkpoint_record),
    ("compressed_event", tailer::compressed_event),
    ("compressed_transaction", tailer::compressed_transaction),
    ("decimal_number", tailer::decimal_number),
    ("gate_entry", gate_entry),
    ("gtid_position", tailer::gtid_position),
    ("json_document", tailer::json_document),
    ("page_cursor", page_cursor),
    ("request_head", api::fuzz::request_head),
    ("rows", tailer::rows),
    ("statement_text", tailer::statement_text),
    ("table_map", tailer::table_map),
    ("topic_event", topic_event),
];

/// Runs one target by its name.
///
/// # Panics
/// There is none of that name, or a promise is broken.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    target(data);
}

/// A user's entry in the gate.
fn gate_entry(data: &[u8]) {
    if let Ok(entry) = redis_gate::Entry::decode(data) {
        assert!(entry.requests.len() <= data.len(), "more requests than bytes: {entry:?}");
    }
}

/// A cursor that a client sends back.
fn page_cursor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(cursor) = text.parse::<redis_view::Cursor>() {
        assert_eq!(cursor.to_string(), text);
    }
}

/// A message of any topic.
fn topic_event(data: &[u8]) {
    comes_back::<Event<UserCouponRow>>(data);
    comes_back::<Event<TemplateRow>>(data);
    comes_back::<Event<StockMovementRow>>(data);
    comes_back::<ExpiryWakeUp>(data);
    comes_back::<ExpiringSoon>(data);
}

fn comes_back<T: DeserializeOwned + Serialize + PartialEq + Debug>(data: &[u8]) {
    let Ok(read) = decode::<T>(data) else { return };
    let written = serde_json::to_vec(&read).expect("numbers and texts can be written");
    let again = decode::<T>(&written).ok();
    assert_eq!(again.as_ref(), Some(&read), "a message is not what it was");
}
