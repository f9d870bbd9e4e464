//! Many damages in one store at once: values that no version writes, keys of another type, times of zeros, numbers at the
//! ends of their types. Each is reported with its row, key or user, and the sound rest is still judged.

use std::time::Duration;

use devstack::{Flavor, TestServers};
use runtime::Clock;
use verifier::{Report, Verdict, at_rest};

use crate::{
    events::event,
    stage::{HOLDER, Stage},
};

/// A statement or command, the invariant that it breaks, and the expected finding.
type Damage = (&'static str, &'static str, &'static str);

/// Users 11 to 30 have a claim (311 to 330) and a coupon (3011 to 3030) each.
const COUPONS: [Damage; 6] = [
    (
        "update user_coupon set status = 9 where id = 3011",
        "I9",
        "coupon 3011 cannot be read: status has an unknown value",
    ),
    (
        "update user_coupon set changed_at = '0000-00-00 00:00:00' where id = 3012",
        "I9",
        "coupon 3012 cannot be read: changed_at is null or a zero time",
    ),
    (
        "update user_coupon set version = 9223372036854775807 where id = 3013",
        "I10",
        "coupon 3013: version 1 is not in the topic",
    ),
    (
        "update user_coupon set version = -9223372036854775808 where id = 3014",
        "I9",
        "coupon 3014 is at version -9223372036854775808",
    ),
    (
        "update user_coupon set used_at = '0000-00-00 00:00:00' where id = 3015",
        "I9",
        "coupon 3015 cannot be read: used_at: a zero date is no time",
    ),
    // Behind all of these, an ordinary one.
    (
        "update user_coupon set used_at = valid_from where id = 3030",
        "I9",
        "coupon 3030 is unused and has a time of use",
    ),
];

const CLAIMS: [Damage; 9] = [
    ("update claim set state = 9 where id = 311", "I2", "claim 311: state is unknown"),
    ("update claim set reason = 3 where id = 312", "I2", "claim 312: reason is set"),
    (
        "update claim set request_id = x'ff00' where id = 313",
        "I2",
        "claim 313: request_id is no key",
    ),
    (
        "update claim set left_after = 1000000001 where id = 314",
        "I2",
        "claim 314: left_after is out of range",
    ),
    (
        "update claim set left_after = -1 where id = 315",
        "I2",
        "claim 315: left_after is out of range",
    ),
    (
        "update claim set created_at = '0000-00-00 00:00:00' where id = 316",
        "I2",
        "claim 316: created_at is no time",
    ),
    (
        "update claim set quantity = -2147483648 where id = 317",
        "I2",
        "claim 317: quantity is out of range",
    ),
    (
        "update claim set state = 3, reason = 99 where id = 318",
        "I14",
        "claim 318 is rejected without a reason",
    ),
    (
        "update claim set payload_hash = repeat('x', 16) where id = 319",
        "I2",
        "claim 319: payload_hash is not",
    ),
];

/// Templates 8 to 21 are drafts like template 7 was, with a total of 10.
const TEMPLATES: [Damage; 17] = [
    (
        "update coupon_template set state = 9 where id = 8",
        "I2",
        "template 8 cannot be read: state: unknown template state code 9",
    ),
    (
        "update coupon_template set discount_value = -1 where id = 9",
        "I2",
        "template 9 is not as the api accepts one: discount.",
    ),
    (
        "update coupon_template set valid_for_ms = -9223372036854775808 where id = 10",
        "I2",
        "template 10 cannot be read: valid_for_ms: -9223372036854775808 is out of range",
    ),
    (
        "update coupon_template set per_user_limit = -5 where id = 11",
        "I2",
        "template 11 cannot be read: per_user_limit: -5 is out of range",
    ),
    (
        "update coupon_template set claim_starts_at = '0000-00-00 00:00:00' where id = 12",
        "I10",
        "template 12 cannot be read: claim_starts_at is null or a zero time",
    ),
    ("update coupon_template set stackable = 7 where id = 13", "I2", "template 13: stackable is"),
    ("update coupon_template set claim_mode = 9 where id = 14", "I2", "template 14 cannot be read"),
    ("delete from template_stock where template_id = 15", "I2", "template 15: it has no stock row"),
    (
        "update template_stock set open = 9 where template_id = 16",
        "I2",
        "stock of template 16: open is unknown",
    ),
    (
        "update template_stock set stock = -9223372036854775808 where template_id = 16",
        "I2",
        "template 16 gave 0 of 10, stock -9223372036854775808",
    ),
    (
        "update stock_movement set kind = 1, delta_stock = 9223372036854775807 where template_id = 17",
        "I15",
        "template 17: stock 10, movements 9223372036854775807",
    ),
    (
        "update stock_movement set kind = 1, delta = -9223372036854775808, \
         delta_stock = 9223372036854775807 where template_id = 18",
        "I15",
        "template 18: total 10, sum of movements -9223372036854775808",
    ),
    (
        "update stock_movement set kind = 9 where template_id = 19",
        "I15",
        "template 19: movement 1 cannot be read: kind has an unknown value",
    ),
    (
        "update stock_movement set created_at = '0000-00-00 00:00:00' where template_id = 20",
        "I10",
        "template 20: movement 1 cannot be read: created_at is null or a zero time",
    ),
    (
        "update stock_movement set total_after = 5 where template_id = 21",
        "I15",
        "template 21: movement 1 left another total",
    ),
    (
        "insert into validity_move (template_id, version, valid_for_ms, state, total, looked_at, moved, after_user, \
         after_number, asked_at) values (9, 1, 9223372036854775807, 9, 0, 0, 0, 0, 0, utc_timestamp(3))",
        "I2",
        "move of template 9 to version 1: state is unknown",
    ),
    (
        "insert into user_lapse values (9, 30, -5, -9223372036854775808)",
        "I15",
        "lapses of user 30 are (-5, -9223372036854775808)",
    ),
];

const ORDERS: [Damage; 15] = [
    (
        "insert into redemption select 601, 9, undoes, merchant_id, 'a', 3020, 7, 20, amount, discount, currency, \
         actor, reason, created_at from redemption where id = 501",
        "I13",
        "redemption 601: kind is unknown",
    ),
    (
        "insert into redemption select 602, 1, undoes, merchant_id, 'b', 3021, 7, 21, 100, -1, 'EUR', actor, reason, \
         created_at from redemption where id = 501",
        "I13",
        "redemption 602: discount is out of range",
    ),
    (
        "insert into redemption select 603, 1, undoes, merchant_id, 'c', 3022, 7, 22, amount, discount, currency, \
         actor, reason, '0000-00-00 00:00:00' from redemption where id = 501",
        "I13",
        "redemption 603: created_at is no time",
    ),
    (
        "insert into redemption select 604, 1, undoes, merchant_id, 'd', 9999, 7, 22, amount, discount, currency, \
         actor, reason, created_at from redemption where id = 501",
        "I13",
        "redemption 604: its coupon is missing",
    ),
    (
        "insert into redemption select 605, 1, undoes, merchant_id, 'e', 3023, 7, 22, 5, null, currency, actor, \
         reason, created_at from redemption where id = 501",
        "I13",
        "redemption 605: its money is there in part",
    ),
    (
        "insert into redemption_order values (1, 'lost', repeat('x', 32), 2, 100, 'EUR', utc_timestamp(3), null, \
         utc_timestamp(3))",
        "I13",
        "order \"lost\" of merchant 1 has no redemption like its row",
    ),
    (
        "insert into redemption_order values (1, x'ff', repeat('x', 32), null, 100, 'EUR', utc_timestamp(3), null, \
         utc_timestamp(3))",
        "I13",
        "order \"\u{fffd}\" of merchant 1 was redeemed in part",
    ),
    (
        "insert into redemption_order values (1, 'order', null, null, null, null, null, utc_timestamp(3), \
         utc_timestamp(3))",
        "I13",
        "order \"order\" of merchant 1 was cancelled, and a redemption of it stands",
    ),
    (
        "insert into audit_entry (id, merchant_id, action, target, after_json, created_at) values \
         (71, 1, 'coupon.use', 'coupons/3025', '{\"order_ref\":\"gone\"}', utc_timestamp(3))",
        "I13",
        "coupon 3025: line 71 of the audit record is of a use",
    ),
    // Both rows of a use that was given back are gone.
    (
        "insert into audit_entry (id, merchant_id, action, target, before_json, after_json, created_at) values \
         (72, 1, 'coupon.unuse', 'coupons/3026', '{\"status\":\"used\"}', '{\"order_ref\":\"gone\"}', utc_timestamp(3))",
        "I13",
        "coupon 3026: line 72 of the audit record is of a return",
    ),
    (
        "insert into audit_entry (id, merchant_id, action, target, after_json, created_at) values \
         (73, 1, 'coupon.use', 'coupons/3027', 'no JSON', utc_timestamp(3)), \
         (74, 1, 'coupon.extend', 'coupons/3027', '{{', utc_timestamp(3))",
        "I13",
        "coupon 3027: line 73 of the audit record is of a use",
    ),
    (
        "insert into coupon_lock values (3028, 'x', utc_timestamp(3) + interval 31 minute)",
        "I13",
        "lock of coupon 3028: locked_until is later than a lock may last",
    ),
    (
        "insert into coupon_lock values (3029, 'x', '0000-00-00 00:00:00')",
        "I13",
        "lock of coupon 3029: locked_until is no time",
    ),
    (
        "insert into coupon_lock values (9999, 'x', utc_timestamp(3))",
        "I13",
        "lock of coupon 9999: there is no such coupon",
    ),
    (
        "insert into coupon_payment values (1, 'p', 330, '3030', '0000-00-00 00:00:00', 'test')",
        "I14",
        "payment p of merchant 1: confirmed_at is no time",
    ),
];

/// Templates 8 and 10 have a gate's meta that is open.
const GATES: [Damage; 13] = [
    ("SET {p}gate:1:{8:0}:outbox x", "I14", "template 8: a key of its gate is damaged"),
    ("PEXPIRE {p}gate:1:{8:0}:meta 9000000", "I7", "gate:1:{8:0}:meta has an expiry"),
    ("SET {p}gate:1:{9:0}:meta x", "I6", "template 9: a key of its gate is damaged"),
    ("SET {p}gate:1:{10:0}:users:0 x", "I7", "gate:1:{10:0}:users:0 is a string, not a hash"),
    ("SET {p}gate:1:{7:0}:inflight:1 x", "I7", "gate:1:{7:0}:inflight:1 is a string, not a zset"),
    ("SET {p}gate:1:{7:0}:refusing x", "I7", "gate:1:{7:0}:refusing lives for -1 ms"),
    ("PEXPIRE {p}gate:1:{7:0}:users:1 9000000", "I7", "gate:1:{7:0}:users:1 has an expiry"),
    ("HSET {p}gate:1:{8:0}:meta mode \"\\xff\"", "I7", "template 8: the gate's mode is "),
    ("HSET {p}gate:1:{7:0}:meta movement 9", "I7", "template 7: movement is 9 in the gate, 1 in"),
    ("HSET {p}gate:1:{7:0}:meta lapses_allowed 3", "I7", "template 7: lapses_allowed is 3 in"),
    (
        "HSET {p}gate:1:{8:0}:meta stock -9223372036854775808",
        "I6",
        "template 8: the gate's stock is ",
    ),
    ("HSET {p}gate:1:{7:0}:users:1 03 x", "I7", "the entry of user \"03\" cannot be read"),
    // Behind all of these, an ordinary one.
    ("HDEL {p}gate:1:{7:0}:users:1 2", "I7", "user 2 holds numbers [1] in MySQL, [] in the gate"),
];

const VIEWS: [Damage; 6] = [
    (
        "HSET {p}view:1:{1}:coupons 1001 \"\\xff\"",
        "I8",
        "user 1: the view holds bytes that are no text",
    ),
    ("PEXPIRE {p}view:1:{1}:list 9000000000", "I8", "user 1: the view's list ends in"),
    ("ZADD {p}view:1:{1}:list 1 \"7_\\xff\"", "I11", "user 1 is shown coupon \u{fffd}"),
    ("PERSIST {p}view:1:{2}:coupons", "I8", "user 2: the view never ends: its hash has no expiry"),
    ("HSET {p}view:1:{29}:coupons x y", "I8", "user 29: the view never ends"),
    ("ZADD {p}view:1:{3}:list 1 7_1003", "I11", "user 3 is shown coupon 1003, which is expired"),
];

#[tokio::test]
async fn each_of_many_damages_is_reported_with_its_row_key_or_user_and_the_rest_is_judged() {
    all_at_once(Flavor::Mariadb).await;
}

async fn all_at_once(flavor: Flavor) {
    let Some(servers) = TestServers::on(flavor) else { return };
    let stage = Stage::on(servers.scope("damages")).await;
    add_rows(&stage).await;
    for (damage, ..) in COUPONS.iter().chain(&CLAIMS).chain(&TEMPLATES).chain(&ORDERS) {
        // Only so are times of zeros stored.
        stage.sql(&format!("set session sql_mode = ''; {damage}")).await;
    }
    let [gate, view] =
        [&stage.scope.endpoints.gate_redis_url, &stage.scope.endpoints.view_redis_url];
    for (server, damages) in [(gate, &GATES[..]), (view, &VIEWS[..])] {
        for (damage, ..) in damages {
            stage.redis(server, damage).await;
        }
    }
    stage.send(&event(&stage.row(HOLDER).await, i64::MIN), true).await;

    let report = stage.report().await;
    let damages = COUPONS.iter().chain(&CLAIMS).chain(&TEMPLATES).chain(&ORDERS);
    let unseen: Vec<_> = damages
        .chain(&GATES)
        .chain(&VIEWS)
        .filter(|(_, invariant, text)| !told(&report, invariant).any(|said| said.contains(text)))
        .collect();
    assert!(unseen.is_empty(), "{unseen:#?}\n{report}");
    let cut_short = ["ended early", "mysql could not", "the check"];
    let all = report.outcomes.iter().flat_map(|outcome| told(&report, outcome.invariant));
    let cut: Vec<_> = all.filter(|said| cut_short.iter().any(|text| said.contains(text))).collect();
    assert!(cut.is_empty(), "a check did not come to its end: {cut:#?}");
    // Nor does it keep the verifier from starting.
    let unrest = at_rest(&stage.sources, &Clock::system(), Duration::ZERO).await.unwrap_err();
    assert!(unrest.to_string().contains("template "), "{unrest}");
}

/// Adds claims, coupons and templates that are as sound as the topics, gates and views that do not know them allow.
async fn add_rows(stage: &Stage) {
    stage.sql("drop trigger user_coupon_version; update user_coupon set version = version").await;
    // The stage's coupons were claimed half an hour ago.
    stage.sql("update _sqlx_migrations set installed_on = installed_on - interval 1 day").await;
    for user in 11..=30 {
        stage
            .sql(&format!(
                "insert into claim (template_id, user_id, request_id, id, quantity, state, payload_hash, valid_from, \
                 valid_until, created_at) select 7, {user}, 'key-{user}', 300 + {user}, 1, 1, payload_hash, valid_from, \
                 valid_until, created_at from claim where id = 101; \
                 insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, version, \
                 expiry_shard, claimed_at, changed_at, valid_from, valid_until) select 3000 + {user}, 7, {user}, 1, \
                 300 + {user}, merchant_id, 0, 1, {user}, claimed_at, claimed_at, valid_from, valid_until \
                 from user_coupon where id = 1001"
            ))
            .await;
    }
    let gate = &stage.scope.endpoints.gate_redis_url;
    for template in 8..=21 {
        stage
            .sql(&format!(
                "create temporary table t as select * from coupon_template where id = 7; \
                 update t set id = {template}, state = 0, version = 1; insert into coupon_template select * from t; \
                 insert into template_stock (template_id, total, stock, epoch, open) values ({template}, 10, 10, 0, 0); \
                 insert into stock_movement (template_id, seq, delta, reason, actor, created_at, total_after, \
                 stock_after) values ({template}, 1, 10, 'created', 'test', utc_timestamp(3), 10, 10)"
            ))
            .await;
    }
    for template in [8, 10] {
        let meta = format!("{{p}}gate:1:{{{template}:0}}:meta");
        stage.redis(gate, &format!("COPY {{p}}gate:1:{{7:0}}:meta {meta}")).await;
        stage.redis(gate, &format!("HSET {meta} epoch 0 movement 1 users 0")).await;
    }
}

/// The violations of an invariant.
fn told<'a>(report: &'a Report, invariant: &str) -> impl Iterator<Item = &'a String> {
    let of_it = report.outcomes.iter().filter(move |outcome| outcome.invariant == invariant);
    of_it.flat_map(|outcome| match &outcome.verdict {
        Verdict::Violated { examples, .. } => &examples[..],
        Verdict::Holds { .. } | Verdict::Skipped { .. } => &[],
    })
}

mod full {
    use super::*;

    #[tokio::test]
    async fn each_of_many_damages_on_mysql_is_reported_and_the_rest_is_judged() {
        all_at_once(Flavor::Mysql).await;
    }
}
