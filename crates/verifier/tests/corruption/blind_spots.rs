//! Damages one column, field or message at a time; each is detected.

use mysql_store::verify::topic_rows::movements_from;
use serde::Serialize;
use topic::{Event, StockMovementRow, TemplateRow, UserCouponRow};

use crate::{
    events::{event, movement_event},
    stage::{HOLDER, SPENDER, Stage, blames},
};

/// A statement, the invariant that it breaks, and the expected finding.
type Damage = (&'static str, &'static str, &'static str);

/// The row is what a lawful return leaves, and its change is in the topic: only the audit record lacks its line.
#[tokio::test]
async fn a_used_coupon_that_somebody_made_unused_breaks_i9_although_its_change_is_published() {
    let stage = Stage::new("resurrection").await;
    // The stage's coupons were claimed half an hour ago.
    stage.sql("update _sqlx_migrations set installed_on = installed_on - interval 1 day").await;
    let back = "update user_coupon set status = 0, used_at = null, version = version + 1";
    stage.sql(&format!("{back} where user_id = 2")).await;
    stage.send(&event(&stage.row(SPENDER).await, 3), true).await;
    let text = "coupon 1002 was given back, and the record names nobody";
    let is_blamed = async || blames(&stage.outcome("I9").await, text);
    assert!(is_blamed().await);
    assert!(!blames(&stage.outcome("I10").await, "coupon 1002"), "the topic is as after a return");
    stage
        .sql(
            "insert into audit_entry (id, merchant_id, action, target, after_json, created_at) values \
             (1, 1, 'coupon.unuse', 'coupons/1002', '{\"order_ref\":\"another\"}', utc_timestamp(3))",
        )
        .await;
    assert!(is_blamed().await, "that was another order");
    stage.sql("update audit_entry set after_json = '{\"order_ref\":\"order\"}'").await;
    assert!(!is_blamed().await);
}

/// A line of the record that extends a coupon explains one end, and no other.
#[tokio::test]
async fn an_extended_coupon_ends_when_the_record_says_and_not_otherwise() {
    let stage = Stage::new("extended").await;
    stage.sql("drop trigger user_coupon_version; update user_coupon set version = version").await;
    for (line, hours) in [(1, 1), (2, 24)] {
        stage
            .sql(&format!(
                "insert into audit_entry (id, merchant_id, action, target, after_json, created_at) \
                 select {line}, 1, 'coupon.extend', 'coupons/1001', concat('{{\"valid_until\":\"', \
                 date_format(valid_until + interval {hours} hour, '%Y-%m-%dT%H:%i:%s.'), \
                 lpad(microsecond(valid_until) div 1000, 3, '0'), 'Z\"}}'), utc_timestamp(3) \
                 from claim where id = 101"
            ))
            .await;
    }
    let set_end = async |hours: u32| {
        let claimed = "(select valid_until from claim where id = 101)";
        let end = format!("valid_until = {claimed} + interval {hours} hour, version = 3");
        stage.sql(&format!("update user_coupon set {end} where id = 1001")).await;
    };
    let blamed = async |invariant: &str, text: &str| blames(&stage.outcome(invariant).await, text);
    set_end(24).await;
    assert!(!blamed("I2", "coupon 1001").await);
    for other_end in [0, 1, 25] {
        set_end(other_end).await;
        assert!(blamed("I2", "coupon 1001: validity").await, "{other_end} h later");
    }
    // If the issued coupons of a template followed a change, any extension may have been the last.
    let columns = "(template_id, version, valid_for_ms, state, total, looked_at, moved, after_user, \
                   after_number, asked_at)";
    let row = "values (7, 3, 7200000, 1, 3, 0, 0, -1, 0, utc_timestamp(3))";
    stage.sql(&format!("insert into validity_move {columns} {row}")).await;
    stage.sql("update template_stock set terms = 3").await;
    for (end, is_odd) in [(24, false), (25, true), (1, false), (12, true)] {
        set_end(end).await;
        assert_eq!(blamed("I9", "coupon 1001 at version 3 ends").await, is_odd, "{end} h later");
    }
}

#[tokio::test]
async fn a_tombstone_or_an_end_that_is_gone_breaks_i8() {
    let stage = Stage::new("view ends").await;
    let view = stage.scope.endpoints.view_redis_url.clone();
    let damages = [
        ("HDEL {p}view:1:{2}:coupons 1002", "user 2, coupon 1002: no tombstone"),
        ("PERSIST {p}view:1:{1}:list", "user 1: the view never ends"),
        ("PERSIST {p}view:1:{3}:coupons", "user 3: the view never ends"),
        ("ZADD {p}view:1:{1}:list 1.5 7_1001", "user 1: 7_1001 is listed at"),
        ("SET {p}view:1:{2}:list x", "user 2's view is of the wrong type"),
    ];
    for (damage, text) in damages {
        stage.redis(&view, damage).await;
        let outcome = stage.outcome("I8").await;
        assert!(blames(&outcome, text), "{damage}: {outcome}");
    }
}

#[tokio::test]
async fn a_template_in_the_topic_that_is_not_mysqls_breaks_i10() {
    let stage = Stage::new("templates published").await;
    let topic = stage.sources.topics.template();
    let right = stage.template_event().await;
    let renamed = changed(&right, |row| TemplateRow { name: "Another sale".to_owned(), ..row });
    let unknown = changed(&right, |row| TemplateRow { id: 8, ..row });
    let wrong = [
        ("9", &right, "is under another key"),
        ("7", &renamed, "holds the same version with other content"),
        ("8", &unknown, "the topic holds template 8, which MySQL does not have"),
    ];
    assert_each_is_blamed(&stage, &topic, wrong).await;
}

fn changed<R: Clone>(event: &Event<R>, change: impl FnOnce(R) -> R) -> Event<R> {
    Event { after: event.after.clone().map(change), ..event.clone() }
}

/// Sends one event after the other, each under its key, and asserts that I10 finds it.
async fn assert_each_is_blamed<R: Serialize>(
    stage: &Stage,
    topic: &str,
    wrong: [(&str, &Event<R>, &str); 3],
) {
    for (key, event, text) in wrong {
        let payload = serde_json::to_vec(event).unwrap();
        stage.produce(topic, None, key, &payload).await;
        let outcome = stage.outcome("I10").await;
        assert!(blames(&outcome, text), "{text}: {outcome}");
    }
}

mod full {
    use super::*;

    #[tokio::test]
    async fn every_column_of_a_coupon_is_compared_with_something() {
        let stage = Stage::new("columns").await;
        stage.sql("drop trigger user_coupon_version; create table saved as select * from user_coupon; update user_coupon set version = version").await;
        let damages: [Damage; 9] = [
            (
                "status = 0, used_at = null where user_id = 2",
                "I10",
                "coupon 1002: version 2 in the topic is not",
            ),
            ("merchant_id = 9 where user_id = 1", "I2", "coupon 1001: merchant_id"),
            ("expiry_shard = 200 where user_id = 1", "I9", "coupon 1001 is in shard 200"),
            (
                "valid_until = valid_until + interval 1 hour where user_id = 1",
                "I2",
                "coupon 1001: validity",
            ),
            (
                "valid_from = valid_from - interval 1 hour where user_id = 1",
                "I2",
                "coupon 1001: validity",
            ),
            (
                "claimed_at = claimed_at - interval 1 second where user_id = 1",
                "I2",
                "coupon 1001: claimed_at",
            ),
            (
                "used_at = valid_from - interval 1 second where user_id = 2",
                "I9",
                "coupon 1002 was used before",
            ),
            ("order_ref = null where user_id = 2", "I9", "coupon 1002 was used for no order"),
            ("used_at = valid_from where user_id = 1", "I9", "coupon 1001 is unused"),
        ];
        for (change, invariant, text) in damages {
            stage.sql(&format!("update user_coupon set {change}")).await;
            let outcome = stage.outcome(invariant).await;
            assert!(blames(&outcome, text), "{change}: {outcome}");
            stage.sql("delete from user_coupon; insert into user_coupon select * from saved").await;
            assert!(stage.report().await.holds(), "after {change}");
        }
    }

    #[tokio::test]
    async fn claims_and_stock_rows_are_compared_with_what_they_stand_for() {
        let stage = Stage::new("claims").await;
        let damages: [(&str, &str, &str); 5] = [
            (
                "update claim set payload_hash = repeat('x', 16) where user_id = 1",
                "update claim other join (select payload_hash from claim where user_id = 2) right_one \
                 set other.payload_hash = right_one.payload_hash where other.user_id = 1",
                "claim 101: payload_hash",
            ),
            (
                "insert into claim (template_id, user_id, request_id, id, quantity, state, reason, payload_hash, \
                 valid_from, valid_until, created_at) select template_id, 9, 'client', 999, quantity, 2, reason, \
                 payload_hash, valid_from, valid_until, created_at from claim where user_id = 1",
                "delete from claim where id = 999",
                "claim 999: a fence on a client's key",
            ),
            (
                "update claim set request_id = '~101' where id = 101",
                "update claim set request_id = 'key-1' where id = 101",
                "claim 101: a claim on a fence's key",
            ),
            (
                "update template_stock set open = 0",
                "update template_stock set open = 1",
                "template 7 is published, open is false",
            ),
            (
                "update template_stock set terms = 9",
                "update template_stock set terms = 1",
                "template 7: terms is 9",
            ),
        ];
        for (damage, undo, text) in damages {
            stage.sql(damage).await;
            let outcome = stage.outcome("I2").await;
            assert!(blames(&outcome, text), "{damage}: {outcome}");
            stage.sql(undo).await;
            assert!(stage.report().await.holds(), "after {damage}");
        }
    }

    #[tokio::test]
    async fn what_a_gate_knows_of_its_template_and_whose_entry_it_is_breaks_i7() {
        let stage = Stage::new("gate facts").await;
        let gate = stage.scope.endpoints.gate_redis_url.clone();
        let ask = async |command: &str| stage.redis(&gate, command).await;
        let meta = "{p}gate:1:{7:0}:meta";
        for (field, wrong) in [
            ("limit", "5"),
            ("state", "paused"),
            ("version", "9"),
            ("starts", "1"),
            ("ends", "1"),
            ("movement", "9"),
            ("mode", "queued"),
            ("lapses_allowed", "1"),
        ] {
            ask(&format!("EVAL \"redis.call('HSET', KEYS[1], 'saved', redis.call('HGET', KEYS[1], '{field}')) return 1\" 1 {meta}")).await;
            ask(&format!("HSET {meta} {field} {wrong}")).await;
            let outcome = stage.outcome("I7").await;
            assert!(blames(&outcome, &format!("template 7: {field} is {wrong} in")), "{outcome}");
            ask(&format!("EVAL \"redis.call('HSET', KEYS[1], '{field}', redis.call('HGET', KEYS[1], 'saved')) return 1\" 1 {meta}")).await;
        }
        assert!(stage.report().await.holds());
        let users = "{p}gate:1:{7:0}:users:1";
        ask(&format!("EVAL \"redis.call('HSET', KEYS[1], '9', redis.call('HGET', KEYS[1], '1')) return 1\" 1 {users}")).await;
        let outcome = stage.outcome("I7").await;
        assert!(blames(&outcome, "the gate has claim 101 of user 1 under user 9"), "{outcome}");
        ask(&format!("HDEL {users} 9")).await;
        ask(&format!("HSET {users} 2 garbage")).await;
        let outcome = stage.outcome("I7").await;
        assert!(blames(&outcome, "the entry of user \"2\" cannot be read"), "{outcome}");
        ask(&format!("DEL {meta}")).await;
        let outcome = stage.outcome("I7").await;
        assert!(
            blames(&outcome, "template 7 can be claimed, and nobody loads its gate"),
            "{outcome}"
        );
    }

    #[tokio::test]
    async fn a_message_that_nobody_committed_breaks_i10() {
        let stage = Stage::new("messages").await;
        let topics = stage.sources.topics.clone();
        let holder = stage.row(HOLDER).await;
        let spender = stage.row(SPENDER).await;
        let changed = |event: Event<UserCouponRow>| {
            let row = UserCouponRow { claim_no: 2, ..event.after.clone().unwrap() };
            serde_json::to_vec(&Event { after: Some(row), ..event }).unwrap()
        };
        let same = serde_json::to_vec(&event(&spender, 2)).unwrap();
        let own = coupon::partition_of(SPENDER, 2);
        let mut forged = stage.template_event().await;
        forged.after = forged.after.map(|row| TemplateRow { version: 3, state: 3, ..row });
        let forged = serde_json::to_vec(&forged).unwrap();
        let changes = topics.user_coupon();
        let movements = topics.stock_movement();
        type Message<'a> = (&'a str, Option<i32>, &'a str, &'a [u8], &'a str);
        let first = changed(event(&holder, 1));
        let messages: [Message<'_>; 8] = [
            (&changes, None, "1", &first, "holds the same version with other content"),
            (&changes, Some(own), "9", &same, "is under another key"),
            (&changes, Some(1 - own), "2", &same, "is in another user's partition"),
            (&changes, None, "1", b"x", "holds no change"),
            (
                &topics.template(),
                None,
                "7",
                &forged,
                "template 7: version 3 in the topic is not MySQL's row",
            ),
            (&topics.template(), None, "7", b"x", "holds no template"),
            (&movements, None, "7", b"x", "holds no movement"),
            (
                &topics.expiry(),
                None,
                "1",
                br#"{"shard":99,"deadline_ms":1}"#,
                "is no wake-up of a shard",
            ),
        ];
        for (topic, partition, key, payload, text) in messages {
            stage.produce(topic, partition, key, payload).await;
            let outcome = stage.outcome("I10").await;
            assert!(blames(&outcome, text), "{text}: {outcome}");
        }
    }

    #[tokio::test]
    async fn a_movement_in_the_topic_that_is_not_mysqls_breaks_i10() {
        let stage = Stage::new("movements published").await;
        let topic = stage.sources.topics.stock_movement();
        let page = movements_from(&mut stage.mysql().await, 0, 0, 1).await.unwrap();
        let right = movement_event(&page.rows[0]);
        let larger = changed(&right, |row| StockMovementRow { delta: row.delta + 1, ..row });
        let unknown = changed(&right, |row| StockMovementRow { seq: row.seq + 1, ..row });
        let wrong = [
            ("9", &right, "is under another key"),
            ("7", &larger, "moves otherwise than before"),
            ("7", &unknown, "the topic holds movement 2 of template 7, which MySQL does not have"),
        ];
        assert_each_is_blamed(&stage, &topic, wrong).await;
    }
}
