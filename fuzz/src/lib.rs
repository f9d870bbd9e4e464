//! All decoders of the platform for untrusted bytes, by name. The fuzz targets call them, and so does the test that
//! runs the seeds (`tests/tests/fuzz.rs`), which includes this file.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt::{Debug, Write as _},
    iter,
};

use cdc_tailer::fuzz as tailer;
use coupon::{CouponStatus, UserId};
use operator_cli::fuzz as client;
use redis_address::RedisAddress;
use redis_view::{Change, Contents, KeyLife};
use serde::{Serialize, de::DeserializeOwned};
use topic::{
    Event, ExpiringSoon, ExpiryWakeUp, StockMovementRow, TemplateRow, UserCouponRow, decode,
};

/// A target: it fails only if a promise is broken.
pub type Target = fn(&[u8]);

/// Part of each address that is parsed; no output may contain it.
const PASSWORD: &str = "correct-horse-battery-staple";

/// The targets. Each has a file in `fuzz_targets/` and a folder in `seeds/`.
pub const TARGETS: [(&str, Target); 44] = [
    ("api_answer", client::api_answer),
    ("binlog", tailer::binlog),
    ("binlog_address", tailer::binlog_address),
    ("brokers_address", topic::fuzz::brokers_address),
    ("cell", tailer::cell),
    ("checkpoint_record", tailer::checkpoint_record),
    ("claim_message", topic::fuzz::claim_message),
    ("cluster_slots", redis_address::fuzz::cluster_slots),
    ("command_line", client::command_line),
    ("compressed_event", tailer::compressed_event),
    ("compressed_transaction", tailer::compressed_transaction),
    ("consumed_message", sync_consumer::fuzz::consumed_message),
    ("database_address", database_address),
    ("dead_letter", client::dead_letter),
    ("decimal_number", tailer::decimal_number),
    ("gate_answer", redis_gate::fuzz::gate_answer),
    ("gate_entry", gate_entry),
    ("gate_key", redis_gate::fuzz::gate_key),
    ("gate_meta", redis_gate::fuzz::gate_meta),
    ("gtid_position", tailer::gtid_position),
    ("id", id),
    ("in_flight", redis_gate::fuzz::in_flight),
    ("json_document", tailer::json_document),
    ("key_set", api::fuzz::key_set),
    ("lead_times", expiry_worker::fuzz::lead_times),
    ("new_template", api::fuzz::new_template),
    ("outbox_entry", redis_gate::fuzz::outbox_entry),
    ("page_cursor", page_cursor),
    ("payment", claim_lander::fuzz::payment),
    ("redis_address", redis_address),
    ("request_head", api::fuzz::request_head),
    ("rows", tailer::rows),
    ("server_login", tailer::server_login),
    ("server_packet", tailer::server_packet),
    ("statement_text", tailer::statement_text),
    ("table_map", tailer::table_map),
    ("template_change", api::fuzz::template_change),
    ("template_file", client::template_file),
    ("token", api::fuzz::token),
    ("topic_event", topic_event),
    ("view_entry", view_entry),
    ("view_key", redis_view::fuzz::view_key),
    ("view_page", redis_view::fuzz::view_page),
    ("wake_up", expiry_worker::fuzz::wake_up),
];

/// Runs one target by its name.
///
/// # Panics
/// There is no such target, or a promise is broken.
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

/// An id in a path, a token or a message: digits, read alike by the api, from JSON and by the operator's client.
fn id(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let read = text.parse::<UserId>().ok();
    assert_eq!(client::id(text), read.map(|id| id.0), "{text:?} to the operator's client");
    assert_eq!(serde_json::from_value::<UserId>(text.into()).ok(), read, "{text:?} in JSON");
    if let Some(id) = read {
        assert!(id.0 >= 0, "{text:?} below 0");
        assert_eq!(id.to_string().parse(), Ok(id), "{text:?} is not what it was");
    }
}

/// A cursor sent back by a client.
fn page_cursor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(cursor) = text.parse::<redis_view::Cursor>() {
        assert_eq!(cursor.to_string(), text);
    }
}

/// A coupon's details in its user's view: its id, a space, and the entry.
fn view_entry(data: &[u8]) {
    let Some((id, entry)) = str::from_utf8(data).ok().and_then(|text| text.split_once(' ')) else {
        return;
    };
    let details = |entry: &str| {
        let coupons = BTreeMap::from([(id.to_owned(), entry.to_owned())]);
        let list = BTreeMap::new();
        let no_text = BTreeSet::new();
        let lives = [KeyLife::Absent; 2];
        Contents { trusted: true, list, lives, coupons, no_text }.details(id).ok()
    };
    let Some(coupon) = details(entry) else { return };
    let written = Change { coupon, status: CouponStatus::Unused, version: 1 }.entry();
    assert_eq!(details(&written), Some(coupon), "a coupon is not what it was");
}

/// An address of Redis, after user and password.
fn redis_address(data: &[u8]) {
    let Ok(rest) = str::from_utf8(data) else { return };
    // Skip options that could name a file: it would be read from this machine.
    let options = rest.split_once('?').map_or("", |(_, options)| options);
    if options.contains(['/', '%', '.']) {
        return;
    }
    for scheme in ["redis", "rediss", "redis+sentinel", "rediss+cluster"] {
        let address = format!("{scheme}://user:{PASSWORD}@{rest}");
        let read = RedisAddress::parse(&address);
        assert!(!format!("{read:?}").contains(PASSWORD), "a password is shown");
        match read {
            Ok(read) => {
                let is_cluster = scheme.ends_with("cluster");
                assert_eq!(read.is_cluster(), is_cluster, "one server, or a cluster");
            }
            Err(error) => assert_secret(&error),
        }
    }
}

/// An address of MySQL, after user and password.
fn database_address(data: &[u8]) {
    let Ok(rest) = str::from_utf8(data) else { return };
    let read = mysql_store::connect::database_of(&format!("mysql://user:{PASSWORD}@{rest}"));
    match read {
        Ok(database) => assert!(!database.contains(PASSWORD), "a password is shown"),
        Err(error) => assert_secret(&error),
    }
}

/// Checks that neither an error nor its causes contain the password.
fn assert_secret(error: &(dyn Error + 'static)) {
    let mut shown = String::new();
    for cause in iter::successors(Some(error), |error| (*error).source()) {
        // Writing to a string cannot fail.
        let _written = write!(shown, "{cause} {cause:?} ");
    }
    assert!(!shown.contains(PASSWORD), "a password is shown: {shown}");
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
