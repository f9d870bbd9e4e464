//! Compares the messages of each followed table and each kind of change with golden files, byte for byte. Only values
//! chosen by a server or a clock are replaced by their names.

use devstack::golden;
use serde_json::Value;
use topic::{ClaimStats, ExpiringSoon, ExpiryWakeUp, Message};

use crate::harness::Harness;

const TEMPLATE: &str = "insert into coupon_template values \
    (7, 1, 'Zwölf \"%\" 券', 1, 1250, 900, 0, 'EUR', 2, 2, '2026-01-01', '2026-12-31 23:59:59.999', \
     null, null, 86400000, 1, 1, '2026-01-01 00:00:00.001', '2026-01-01 00:00:00.002', 1, 1, 1, 2, \
     900000, 3, 1)";

const MOVEMENT: &str = "insert into stock_movement values \
    (7, 1, -500, 'a \"cut\"\\n', 'operator', '2026-01-02 03:04:05.678', 'key-1', 1500, null, \
     0, null, null)";

const COUPON: &str = "insert into user_coupon values \
    (9007199254740993, 7, 70, 1, 11, 1, 0, 1, 200, '2026-01-02 03:04:05.678', \
     '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678', '2026-01-03 03:04:05.678', null, null, \
     '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', null)";

/// A claim of two coupons, both held for a quarter of an hour.
const HELD: &str = "insert into user_coupon values \
    (21, 7, 70, 1, 20, 1, 4, 1, 6, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678', \
     '2026-01-02 03:04:05.678', '2026-01-02 03:19:05.678', null, null, null, null), \
    (22, 7, 70, 2, 20, 1, 4, 1, 6, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678', \
     '2026-01-02 03:04:05.678', '2026-01-02 03:19:05.678', null, null, null, null)";

/// The first is confirmed, the second lapses, and the first is cancelled.
const ENDS: &str = "
    update user_coupon set status = 0, version = 2, changed_at = '2026-01-02 03:10:00.001',
        valid_from = '2026-01-02 03:10:00.001', valid_until = '2026-01-03 03:10:00.001' where id = 21;
    update user_coupon set status = 5, version = 2, changed_at = '2026-01-02 03:19:05.680',
        issued_no = claim_no, claim_no = id where id = 22;
    insert into stock_movement values (7, 2, 0, 'lapsed', 'deadline', '2026-01-02 03:19:05.680', null,
        1000, 1001, 1, 1, '70/2/1');
    update user_coupon set status = 3, version = 3, changed_at = '2026-01-02 04:00:00.001',
        issued_no = claim_no, claim_no = id where id = 21;
    insert into stock_movement values (7, 3, -1, 'damaged', 'shop', '2026-01-02 04:00:00.001', null,
        999, 1001, 1, 0, '70/1/0');
    insert into stock_movement values (7, 4, 0, 'a mistake', 'operator', '2026-01-02 05:00:00.001', null,
        999, 1001, 2, 0, '70//lift');";

/// One change of each kind, of an existing row.
const CHANGES: &str = "
    update coupon_template set state = 2, version = 2, valid_for_ms = null,
        valid_from = '2026-02-01', valid_until = '2026-03-01', discount_cap = null where id = 7;
    update stock_movement set reason = '' where template_id = 7;
    update user_coupon set status = 1, version = 2, used_at = '2026-01-02 12:00:00.001',
        changed_at = '2026-01-02 12:00:00.001', order_ref = 'order-1', trace_parent = null;
    delete from user_coupon; delete from stock_movement; delete from coupon_template;";

/// A coupon that an operator revokes.
const CANCELLATION: &str = "update user_coupon set status = 3, version = 2, \
    changed_at = '2026-01-02 13:00:00.001' where id = 9007199254740993";

#[tokio::test(flavor = "multi_thread")]
async fn every_message_of_every_followed_table_is_as_its_golden_file_says() {
    let test = Harness::new("golden").await;
    let all = format!("{TEMPLATE}; {MOVEMENT}; {COUPON};");
    test.sql(&all);
    let tailer = test.start().await;
    let names = &test.names;
    let topics = [names.template(), names.stock_movement(), names.user_coupon()];
    for topic in &topics {
        // The stream's rows follow the snapshot's.
        test.messages_until(topic, |messages| !messages.is_empty()).await;
    }
    test.sql(&format!("{CHANGES} {all}"));
    for (topic, table) in topics.iter().zip(["coupon_template", "stock_movement", "user_coupon"]) {
        let messages = test.messages_until(topic, |messages| messages.len() >= 4).await;
        assert_eq!(messages.len(), 4);
        for (message, op) in messages.iter().zip(["r", "u", "d", "c"]) {
            golden(&format!("{table}.{op}.json"), &text(message, names.prefix()));
        }
    }
    test.sql(CANCELLATION);
    let coupons = test.messages_until(&names.user_coupon(), |messages| messages.len() > 4).await;
    golden("user_coupon.cancelled.json", &text(&coupons[4], names.prefix()));
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_holds_is_as_its_golden_files_say() {
    let test = Harness::new("golden holds").await;
    let tailer = test.start().await;
    test.sql(HELD);
    test.sql(ENDS);
    let names = &test.names;
    let coupons = test.messages_until(&names.user_coupon(), |messages| messages.len() >= 5).await;
    let ends = ["held", "held_too", "confirmed", "lapsed", "taken_back"];
    assert_eq!(coupons.len(), ends.len());
    for (message, end) in coupons.iter().zip(ends) {
        golden(&format!("user_coupon.{end}.json"), &text(message, names.prefix()));
    }
    let movements =
        test.messages_until(&names.stock_movement(), |messages| messages.len() >= 3).await;
    let kinds = ["lapse", "retired", "lift"];
    assert_eq!(movements.len(), kinds.len());
    for (message, kind) in movements.iter().zip(kinds) {
        golden(&format!("stock_movement.{kind}.json"), &text(message, names.prefix()));
    }
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_as_its_golden_file_says() {
    let test = Harness::new("golden dead letter").await;
    let mut config = test.config.clone();
    config.message_bytes_max = 100;
    test.start().await.stop().await.unwrap();
    test.sql(COUPON);
    let tailer = test.start_with(config);
    let letters = test.messages_until(&test.names.dead_letter(), |all| !all.is_empty()).await;
    golden("dead_letter.json", &text(&letters[0], test.names.prefix()));
    tailer.stop().await.unwrap();
}

#[test]
fn what_other_processes_send_is_as_its_golden_file_says() {
    let wake_up = ExpiryWakeUp { shard: 7, deadline_ms: 1_700_000_000_000 };
    golden("expiry.json", &(serde_json::to_string(&wake_up).unwrap() + "\n"));
    let soon = ExpiringSoon {
        coupon_id: 9_007_199_254_740_993,
        user_id: 70,
        template_id: 7,
        valid_until_ms: 1_700_086_400_000,
        lead_seconds: 86_400,
    };
    golden("expiring.json", &(serde_json::to_string(&soon).unwrap() + "\n"));
    let answers = [("LANDED", vec![0, 3, 1]), ("SOLD_OUT", vec![40, 2])];
    let stats = ClaimStats {
        api: "api-7-9f86d081884c7d65".to_owned(),
        sequence: 12,
        second: 1_700_000_000,
        template_id: 9_007_199_254_740_993,
        answers: answers.map(|(word, buckets)| (word.to_owned(), buckets)).into(),
    };
    golden("claim_stats.json", &(serde_json::to_string(&stats).unwrap() + "\n"));
}

/// Formats a message for a golden file: JSON, with the value's bytes on their own line.
fn text(message: &Message, prefix: &str) -> String {
    let payload =
        String::from_utf8(message.payload.clone().unwrap_or_default()).expect("a payload is text");
    let value: Value = serde_json::from_str(&payload).unwrap_or_default();
    let gtid = value["source"]["gtid"].as_str();
    let headers: Vec<String> = message
        .headers
        .iter()
        .map(|(name, bytes)| {
            format!("{}:{}", Value::from(name.as_str()), header(name, bytes, gtid))
        })
        .collect();
    let topic = message.topic.replace(prefix, "<prefix>");
    let key = String::from_utf8_lossy(&message.key);
    format!(
        "{{\n\"topic\": {},\n\"key\": {},\n\"headers\": {{{}}},\n\"value\":\n{}\n}}\n",
        Value::from(topic),
        Value::from(key),
        headers.join(",").replace(prefix, "<prefix>"),
        if payload.is_empty() { "null".to_owned() } else { masked(payload, &value) },
    )
}

fn header(name: &str, bytes: &[u8], gtid: Option<&str>) -> Value {
    let text = String::from_utf8_lossy(bytes);
    match (name, gtid) {
        ("position", Some(gtid)) => text.replace(gtid, "<gtid>").into(),
        // A dead letter has no event with the GTID; the row number stays.
        ("position", None) => {
            format!("<gtid>/{}", text.rsplit('/').next().expect("a split has a part")).into()
        }
        ("payload-bytes", _) => "<bytes>".into(),
        _ => text.into(),
    }
}

/// Masks the values that a server or a clock has chosen.
fn masked(payload: String, value: &Value) -> String {
    let source = &value["source"];
    let chosen = ["db", "gtid", "file", "pos", "ts_ms"].map(|name| (name, &source[name]));
    let chosen = chosen.into_iter().chain([("ts_ms", &value["ts_ms"])]);
    // Empty values of a snapshot are part of the format and are not masked.
    let chosen =
        chosen.filter(|(_, value)| !matches!(value.to_string().as_str(), "null" | "0" | "\"\""));
    chosen.fold(payload, |text, (name, value)| {
        text.replace(&format!("\"{name}\":{value}"), &format!("\"{name}\":\"<{name}>\""))
    })
}
