//! Violates each invariant on purpose, and expects the verifier to name it. `cargo test -p
//! verifier` needs the test servers: `./dev servers up`.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod blind_spots;
mod damages;
mod events;
mod holds;
mod hot_user;
mod reading;
mod replacements;
mod spans;
mod stage;

use std::time::Duration;

use events::event;
use runtime::Clock;
use stage::{HOLDER, SLEEPER, SPENDER, Stage, blames};
use testkit::until;
use topic::{Event, UserCouponRow};
use verifier::{Sampler, Verdict, VerifyError, at_rest, verify};

/// Far longer than it takes to see a platform at rest.
const AT_REST: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_sound_platform_violates_nothing_and_is_at_rest() {
    let stage = Stage::new("sound").await;
    at_rest(&stage.sources, &Clock::system(), AT_REST).await.unwrap();
    let report = stage.report().await;
    assert!(report.holds(), "{report}");
    let held = |verdict: &Verdict| matches!(verdict, Verdict::Holds { .. });
    assert!(report.outcomes.iter().all(|outcome| held(&outcome.verdict)), "{report}");

    let bare = verify(&stage.sources, None, Clock::system().now()).await.unwrap();
    let skipped = bare.outcomes.iter().filter(|outcome| !held(&outcome.verdict));
    assert_eq!(skipped.map(|outcome| outcome.invariant).collect::<Vec<_>>(), ["I4", "I5"]);
}

#[tokio::test]
async fn stock_that_is_not_conserved_breaks_i1_i2_and_i6() {
    let stage = Stage::new("stock").await;
    let sampler = Sampler::start(stage.sources.pool.clone());
    stage.sql("update template_stock set stock = stock + 1").await;
    assert_eq!(stage.broken().await, ["I2", "I6", "I15"]);
    let sampled = sampler.stop().await;
    assert!(blames(&sampled, "stock 8"), "{sampled}");
    stage.sql("update template_stock set stock = stock - 1").await;
    stage.sql("update claim set quantity = 2 where user_id = 1").await;
    assert!(blames(&stage.outcome("I2").await, "claim 101 is for 2"));
}

#[tokio::test]
async fn a_coupon_without_a_claim_breaks_i2() {
    let stage = Stage::new("orphan").await;
    stage.sql("update claim set state = 2 where user_id = 2").await;
    assert!(blames(&stage.outcome("I2").await, "coupon 1002 has no landed claim"));
}

#[tokio::test]
async fn a_user_over_the_limit_breaks_i3() {
    let stage = Stage::new("limit").await;
    for number in [2, 3] {
        let copy = format!(
            "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, \
             status, version, expiry_shard, claimed_at, changed_at, valid_from, valid_until) \
             select id + {number}0000, template_id, user_id, {number}, claim_id, merchant_id, status, \
             version, expiry_shard, claimed_at, changed_at, valid_from, valid_until \
             from user_coupon where user_id = 1 and claim_no = 1"
        );
        stage.sql(&copy).await;
    }
    assert!(blames(&stage.outcome("I3").await, "user 1 holds 3 coupons"));
}

#[tokio::test]
async fn an_answer_that_is_not_true_breaks_i4() {
    let mut stage = Stage::new("answers").await;
    let lost = stage.history.records.remove(0);
    assert!(blames(&stage.outcome("I4").await, "nobody asked for claim 101"));
    stage.history.records.push(lost);
    assert!(stage.report().await.holds());
    stage.sql("update claim set state = 2 where user_id = 3").await;
    assert!(blames(&stage.outcome("I4").await, "user 3, key key-3 was promised claim 103"));
    stage.history.records[0].body = Some(r#"{"id":"102","coupons":[{"id":"9"}]}"#.to_owned());
    assert!(blames(&stage.outcome("I4").await, "MySQL has claim 102"));
}

#[tokio::test]
async fn a_refusal_that_landed_and_a_replay_that_differs_break_i5() {
    let mut stage = Stage::new("refusal").await;
    let mut again = stage.history.records[0].clone();
    again.body = again.body.map(|body| body + " ");
    stage.history.records.push(again);
    assert!(blames(&stage.outcome("I5").await, "user 1, key key-1 got 2 different bodies"));
    stage.history.records.pop();
    let record = &mut stage.history.records[1];
    (record.status, record.code, record.body) = (Some(409), Some("SOLD_OUT".to_owned()), None);
    assert!(blames(&stage.outcome("I5").await, "only ever answered SOLD_OUT"));
    // An answer to the same key is unknown, so the refusal proves nothing.
    let mut unknown = stage.history.records[1].clone();
    (unknown.status, unknown.code) = (None, None);
    stage.history.records.push(unknown);
    assert!(stage.report().await.holds());
}

#[tokio::test]
async fn a_gate_that_differs_from_mysql_breaks_i6_and_i7() {
    let stage = Stage::new("gate").await;
    let gate = stage.scope.endpoints.gate_redis_url.clone();
    stage.redis(&gate, "HINCRBY {p}gate:1:{7:0}:meta stock -1").await;
    assert_eq!(stage.broken().await, ["I6"]);
    stage.redis(&gate, "HINCRBY {p}gate:1:{7:0}:meta stock 1").await;
    stage.redis(&gate, "ZADD {p}gate:1:{7:0}:inflight:1 1 999:9").await;
    assert!(blames(&stage.outcome("I7").await, "1 claims in flight"));
    assert!(matches!(
        at_rest(&stage.sources, &Clock::system(), Duration::ZERO).await,
        Err(VerifyError::NotAtRest { waiting_for, .. }) if waiting_for.contains("in flight")
    ));
    stage.redis(&gate, "ZREM {p}gate:1:{7:0}:inflight:1 999:9").await;
    stage.redis(&gate, "HDEL {p}gate:1:{7:0}:users:1 2").await;
    assert!(blames(
        &stage.outcome("I7").await,
        "user 2 holds numbers [1] in MySQL, [] in the gate"
    ));
    assert_eq!(stage.broken().await, ["I7"]);
}

#[tokio::test]
async fn a_view_that_differs_from_mysql_breaks_i8_and_a_revenant_i11() {
    let stage = Stage::new("view").await;
    let view = stage.scope.endpoints.view_redis_url.clone();
    stage.redis(&view, "ZREM {p}view:1:{1}:list 7_1001").await;
    assert_eq!(stage.broken().await, ["I8"]);
    let score = stage.row(HOLDER).await.claimed_at.timestamp_millis();
    stage.redis(&view, &format!("ZADD {{p}}view:1:{{1}}:list {score} 7_1001")).await;
    assert!(stage.report().await.holds());
    stage.redis(&view, "HSET {p}view:1:{2}:coupons 1002 1|0|7|1|102|1|1|1").await;
    assert!(blames(&stage.outcome("I8").await, "user 2, coupon 1002: the view holds"));
    stage.redis(&view, "ZADD {p}view:1:{3}:list 1 7_1003").await;
    assert!(blames(&stage.outcome("I11").await, "user 3 is shown coupon 1003, which is expired"));
}

#[tokio::test]
async fn a_coupon_that_ended_unlawfully_breaks_i9() {
    let stage = Stage::new("expiry").await;
    let rewrite = |change: &str, user| {
        format!("update user_coupon set version = version + 1, {change} where user_id = {user}")
    };
    stage.sql(&rewrite("changed_at = changed_at", SLEEPER)).await;
    assert!(blames(&stage.outcome("I9").await, "coupon 1003 is expired at version 3"));
    let stage = Stage::new("expiry").await;
    stage.sql("drop trigger user_coupon_version; update user_coupon set version = version").await;
    stage.sql("update user_coupon set changed_at = claimed_at where user_id = 3").await;
    assert!(blames(&stage.outcome("I9").await, "before its deadline"));
    stage.sql("update user_coupon set used_at = valid_until where user_id = 2").await;
    assert!(blames(&stage.outcome("I9").await, "coupon 1002 was used at"));
    stage.sql("update user_coupon set valid_until = claimed_at where user_id = 1").await;
    assert!(blames(&stage.outcome("I9").await, "coupon 1001 is still unused"));
}

#[tokio::test]
async fn a_change_that_is_missing_or_early_in_the_topic_breaks_i10() {
    let stage = Stage::new("changes").await;
    let bump = "update user_coupon set version = version + 1 where user_id = 1";
    stage.sql(bump).await;
    assert!(blames(&stage.outcome("I10").await, "coupon 1001: version 2 is not in the topic"));
    stage.sql(bump).await;
    stage.send(&event(&stage.row(HOLDER).await, 3), true).await;
    assert!(blames(&stage.outcome("I10").await, "coupon 1001: version 3 came first"));
    // A late duplicate does no harm.
    stage.send(&event(&stage.row(SPENDER).await, 1), true).await;
    assert!(!blames(&stage.outcome("I10").await, "coupon 1002"));
}

/// A hold may lapse, or a user claim, at any moment of a verification.
#[tokio::test]
async fn messages_that_are_consumed_while_the_verifier_looks_do_not_break_i12() {
    let stage = Stage::new("consumed meanwhile").await;
    stage.send(&event(&stage.row(HOLDER).await, 1), false).await;
    let (outcome, ()) = tokio::join!(stage.outcome("I12"), stage.consume(1));
    assert!(outcome.to_string().starts_with("I12 holds"), "{outcome}");
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_coupon_that_followed_a_validity_wrongly_breaks_i9() {
        let stage = Stage::new("followed").await;
        let rewrite = |change: &str| format!("update user_coupon set {change} where user_id = 1");
        let finding = async || match stage.outcome("I9").await.verdict {
            Verdict::Violated { examples, .. } => examples.join("\n"),
            Verdict::Holds { .. } | Verdict::Skipped { .. } => String::new(),
        };
        stage
            .sql("drop trigger user_coupon_version; update user_coupon set version = version")
            .await;
        // Unended coupons are valid for two hours instead of one, by a change at the template's version
        // 3.
        let columns = "(template_id, version, valid_for_ms, state, total, looked_at, moved, after_user, \
                       after_number, asked_at)";
        let row = "values (7, 3, 7200000, 0, 3, 0, 0, -1, 0, utc_timestamp(3))";
        stage.sql(&format!("insert into validity_move {columns} {row}")).await;
        stage.sql("update template_stock set terms = 3").await;
        assert_eq!(finding().await, "", "nobody has followed yet");
        assert!(matches!(
            at_rest(&stage.sources, &Clock::system(), Duration::ZERO).await,
            Err(VerifyError::NotAtRest { waiting_for, .. }) if waiting_for.contains("new validity")
        ));
        stage.sql("update validity_move set state = 1").await;
        assert!(finding().await.contains("coupon 1001 at version 1 ends"), "it was left behind");
        let moved = "valid_until = claimed_at + interval 2 hour";
        stage.sql(&rewrite(&format!("{moved}, version = 2"))).await;
        assert_eq!(finding().await, "");
        for wrong in [
            "version = 1",
            "valid_until = valid_until + interval 1 second",
            "valid_until = valid_until - interval 1 hour",
            "valid_from = valid_from - interval 1 hour",
        ] {
            stage.sql(&rewrite(wrong)).await;
            assert!(finding().await.contains("coupon 1001 at version"), "{wrong}");
            stage.sql(&rewrite(&format!("valid_from = claimed_at, {moved}, version = 2"))).await;
            assert_eq!(finding().await, "");
        }
        stage.sql(&rewrite("version = 3")).await;
        assert!(finding().await.contains("coupon 1001 is unused at version 3"));
        // A coupon that ended before keeps its validity.
        stage.sql("update user_coupon set version = 4 where user_id = 3").await;
        assert!(finding().await.contains("coupon 1003 is expired at version 4"));
    }

    #[tokio::test]
    async fn a_change_that_its_coupon_could_not_make_breaks_i10() {
        let row = |event: Event<UserCouponRow>, status, order: Option<&str>| UserCouponRow {
            status,
            order_ref: order.map(str::to_owned),
            ..event.after.unwrap()
        };
        for ((before, first), (after, second), lawful) in [
            ((0, None), (1, Some("a")), true),
            ((1, Some("a")), (0, Some("a")), true),
            ((0, Some("a")), (1, Some("b")), true),
            ((0, Some("a")), (1, Some("a")), false),
            ((1, Some("a")), (0, Some("b")), false),
            ((1, Some("a")), (1, Some("b")), false),
            ((1, Some("a")), (2, Some("a")), false),
            ((2, None), (0, None), false),
        ] {
            let stage = Stage::new("unlawful").await;
            let sent = event(&stage.row(HOLDER).await, 2);
            let before = Some(row(sent.clone(), before, first));
            let after = Some(row(sent.clone(), after, second));
            stage.send(&Event { before, after, ..sent }, true).await;
            let outcome = stage.outcome("I10").await;
            assert_eq!(blames(&outcome, "which it could not become"), !lawful, "{outcome:?}");
        }
    }

    #[tokio::test]
    async fn messages_left_to_consume_break_i12() {
        let stage = Stage::new("lag").await;
        stage.send(&event(&stage.row(HOLDER).await, 1), false).await;
        assert_eq!(stage.broken().await, ["I12"]);
        // One look may find the topic not read to its end yet.
        let waiting_for =
            async || match at_rest(&stage.sources, &Clock::system(), Duration::ZERO).await {
                Err(VerifyError::NotAtRest { waiting_for, .. }) => waiting_for,
                rest => panic!("{rest:?}"),
            };
        let behind = until(waiting_for, |what| what.contains("behind")).await;
        assert!(behind.contains("1 messages behind"), "{behind}");
    }

    /// Each damage alone, with the statement that undoes it.
    #[tokio::test]
    async fn a_use_without_its_redemption_and_money_that_does_not_add_up_break_i13() {
        let stage = Stage::new("redemption").await;
        // The stage's coupons were claimed half an hour ago.
        stage.sql("update _sqlx_migrations set installed_on = installed_on - interval 1 day").await;
        assert!(stage.report().await.holds());
        let rollback = "insert into redemption select 502, 2, 501, merchant_id, order_ref, coupon_id, template_id, \
                        user_id, amount, discount, currency, actor, 'by hand', created_at from redemption";
        let order = "insert into redemption_order values \
                     (1, 'order', repeat('x', 32), 2, 100, 'EUR', (select created_at from redemption limit 1), null, \
                     utc_timestamp(3))";
        let money = "update redemption set amount = 100, discount = 100, currency = 'EUR'";
        let no_money = "update redemption set amount = null, discount = null, currency = null";
        let damages = [
            (
                "update redemption set order_ref = 'Order'",
                "update redemption set order_ref = 'order'",
                "coupon 1002 is used, and no",
            ),
            (rollback, "delete from redemption where id = 502", "coupon 1002 is used, and no"),
            (
                "update redemption set coupon_id = 1001",
                "update redemption set coupon_id = 1002",
                "redemption 501 stands",
            ),
            (
                "update redemption set user_id = 1",
                "update redemption set user_id = 2",
                "redemption 501 stands",
            ),
            (
                "update redemption set kind = 2",
                "update redemption set kind = 1",
                "rollback 501 undoes no",
            ),
            (money, no_money, "the discounts of order \"order\""),
        ];
        for (damage, undo, text) in damages {
            stage.sql(damage).await;
            let outcome = stage.outcome("I13").await;
            assert!(blames(&outcome, text), "{damage}: {outcome}");
            stage.sql(undo).await;
            assert!(stage.report().await.holds(), "after {damage}");
        }
        stage.sql(order).await;
        stage.sql(money).await;
        assert!(stage.report().await.holds(), "the order says the same");
        stage.sql("update redemption set discount = 101").await;
        assert_eq!(stage.broken().await, ["I13"], "more than there was to pay");
    }

    /// Each damage alone, with the statement that undoes it.
    #[tokio::test]
    async fn a_rejection_that_left_something_and_a_queue_that_did_not_end_break_i14() {
        let stage = Stage::new("queued").await;
        let rejected = "insert into claim (template_id, user_id, request_id, id, quantity, state, reason, payload_hash, \
                        valid_from, valid_until, created_at, admitted_at) select template_id, user_id, 'key-9', 900, \
                        quantity, 3, 1, payload_hash, valid_from, valid_until, created_at, created_at from claim \
                        where user_id = 1";
        stage.sql(rejected).await;
        assert_eq!(stage.broken().await, ["I14"], "a new gate would not look it up");
        stage.sql("insert into rejected_user values (7, 1)").await;
        let outcome = stage.outcome("I14").await;
        assert!(stage.report().await.holds() && outcome.to_string().contains("1 claim rejected"));
        for (damage, undo, text) in [
            (
                "update claim set reason = null where id = 900",
                "update claim set reason = 1 where id = 900",
                "claim 900 is rejected without",
            ),
            (
                "update template_stock set queued_epoch = epoch + 1",
                "update template_stock set queued_epoch = epoch",
                "template 7: epochs",
            ),
            (
                "update coupon_template set claim_mode = 1",
                "update coupon_template set claim_mode = 0",
                "template 7: epochs",
            ),
        ] {
            stage.sql(damage).await;
            let outcome = stage.outcome("I14").await;
            assert!(blames(&outcome, text), "{damage}: {outcome}");
            stage.sql(undo).await;
            assert!(stage.report().await.holds(), "after {damage}");
        }
        let gate = stage.scope.endpoints.gate_redis_url.clone();
        stage.redis(&gate, "ZADD {p}gate:1:{7:0}:queued:1 1 999:9").await;
        assert_eq!(stage.broken().await, ["I14"]);
        assert!(matches!(
            at_rest(&stage.sources, &Clock::system(), Duration::ZERO).await,
            Err(VerifyError::NotAtRest { waiting_for, .. }) if waiting_for.contains("the gate's queue")
        ));
        stage.redis(&gate, "ZREM {p}gate:1:{7:0}:queued:1 999:9").await;
        stage
            .sql("update user_coupon set claim_id = 900, version = version + 1 where id = 1001")
            .await;
        assert!(blames(&stage.outcome("I14").await, "claim 900 is rejected, and has a coupon"));
    }
}
