//! Damages a replaced coupon, its replacement, and what the record says of them; each is detected.

use coupon::CouponId;
use mysql_store::desk::{self, Change};
use runtime::Clock;
use verifier::Verdict;

use crate::stage::{HOLDER, Stage, blames};

/// The id of the replacement of coupon 1001.
const NEW: CouponId = CouponId(2001);

/// What I2 says of a replacement that is none.
const NONE: &str = "coupon 2001 replaces none that was cancelled for it";

/// Damage, how it is undone, the invariant that it breaks, and the expected finding.
type Damage = (&'static str, &'static str, &'static str, &'static str);

const DAMAGES: [Damage; 11] = [
    (
        "update coupon_replacement set created_at = created_at - interval 1 second",
        "update coupon_replacement set created_at = created_at + interval 1 second",
        "I2",
        NONE,
    ),
    (
        "update coupon_replacement set usable_since = created_at",
        "update coupon_replacement set usable_since = null",
        "I2",
        NONE,
    ),
    (
        "update coupon_replacement set coupon_id = 1003",
        "update coupon_replacement set coupon_id = 1001",
        "I2",
        NONE,
    ),
    (
        "update user_coupon set status = 0 where id = 1001",
        "update user_coupon set status = 3 where id = 1001",
        "I2",
        NONE,
    ),
    (
        "update user_coupon set claim_no = 2 where id = 2001",
        "update user_coupon set claim_no = 2001 where id = 2001",
        "I2",
        NONE,
    ),
    (
        "update user_coupon set valid_until = valid_until + interval 1 day where id = 2001",
        "update user_coupon set valid_until = valid_until - interval 1 day where id = 2001",
        "I2",
        NONE,
    ),
    (
        "update audit_entry set action = 'coupon.revoke'",
        "update audit_entry set action = 'coupon.replace'",
        "I2",
        NONE,
    ),
    (
        "update audit_entry set after_json = '{\"replaced_by\":\"2002\"}'",
        "update audit_entry set after_json = '{\"replaced_by\":\"2001\"}'",
        "I2",
        NONE,
    ),
    (
        "delete from coupon_replacement",
        "insert into coupon_replacement (coupon_id, replacement_id, template_id, created_at) \
         select id, 2001, 7, changed_at from user_coupon where id = 1001",
        "I2",
        "landed 3, coupons 4",
    ),
    (
        "update user_coupon set merchant_id = 9 where id = 2001",
        "update user_coupon set merchant_id = 1 where id = 2001",
        "I2",
        "coupon 2001: merchant_id",
    ),
    (
        "update audit_entry set action = 'coupon.extend'",
        "update audit_entry set action = 'coupon.replace'",
        "I9",
        "coupon 1001 was cancelled, and the record names nobody who did it",
    ),
];

/// Replaces the holder's coupon as the api does, with its line of the audit record.
async fn replace(stage: &Stage) {
    let merchant = stage.row(HOLDER).await.merchant_id;
    let mut connection = stage.mysql().await;
    let held = desk::hold(&mut connection, merchant, CouponId(1001)).await.unwrap().unwrap();
    let now = Clock::system().now();
    let replaced = desk::replace(&mut connection, &held, NEW, now).await.unwrap();
    assert!(matches!(replaced.change, Change::Done(_)), "{replaced:?}");
    stage
        .sql(
            "insert into audit_entry (id, merchant_id, action, target, after_json, created_at) values \
             (1, 1, 'coupon.replace', 'coupons/1001', '{\"replaced_by\":\"2001\"}', utc_timestamp(3))",
        )
        .await;
}

/// Asserts what MySQL alone shows. Topics and views have not heard of the replacement.
async fn assert_sound(stage: &Stage, after: &str) {
    for invariant in ["I2", "I3", "I9"] {
        let outcome = stage.outcome(invariant).await;
        assert!(matches!(outcome.verdict, Verdict::Holds { .. }), "after {after}: {outcome}");
    }
}

mod full {
    use super::*;

    /// A coupon beside another one's claim takes no stock, so a forged replacement would be a coupon for nothing.
    #[tokio::test]
    async fn a_replacement_that_stands_for_no_cancelled_coupon_breaks_i2_and_one_without_a_line_i9()
    {
        let stage = Stage::new("replacements").await;
        replace(&stage).await;
        // The damages are changes that no version tells of.
        stage
            .sql("drop trigger user_coupon_version; update user_coupon set version = version")
            .await;
        assert_sound(&stage, "the replacement").await;
        for (damage, undo, invariant, text) in DAMAGES {
            stage.sql(damage).await;
            let outcome = stage.outcome(invariant).await;
            assert!(blames(&outcome, text), "{damage}: {outcome}");
            stage.sql(undo).await;
            assert_sound(&stage, damage).await;
        }
    }
}
