//! Damages holds, what came back of them, and the ledger; each is detected.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{
    Admission, ClaimId, CouponId, Epoch, HoldTerms, LandedClaim, LandingMode, MerchantId,
    ReturnedStock, Template, TemplateId, TemplateState, UserId, Validity,
};
use mysql_store::{
    confirmation::{self, Confirmation, Payment},
    connect, landing,
    returns::{self, Cause, Return},
    template,
};
use runtime::Clock;
use verifier::Verdict;

use crate::stage::{Stage, blames};

/// A template that holds its coupons, beside the stage's own.
const HOLDS: TemplateId = TemplateId(8);

/// Damage, how it is undone, the invariant that it breaks, and the expected finding.
type Damage = (&'static str, &'static str, &'static str, &'static str);

/// Of users 11 to 16: a confirmed coupon; a lapsed one, forgiven; two cancelled ones of one claim; one cancelled after
/// its confirmation; a held one; a lapsed one.
const COUPONS: [Damage; 19] = [
    (
        "update user_coupon set status = 5 where id = 2013",
        "update user_coupon set status = 3 where id = 2013",
        "I15",
        "what came back of user 13",
    ),
    (
        "update user_coupon set issued_no = null, claim_no = 1 where id = 2012",
        "update user_coupon set issued_no = 1, claim_no = 2012 where id = 2012",
        "I2",
        "of them returned 4",
    ),
    (
        "update user_coupon set status = 0, used_at = null where id = 2012",
        "update user_coupon set status = 5 where id = 2012",
        "I14",
        "coupon 2012 came back, and its status",
    ),
    (
        "update user_coupon set claim_no = 1 where id = 2012",
        "update user_coupon set claim_no = 2012 where id = 2012",
        "I14",
        "coupon 2012 came back, and its status or its numbers",
    ),
    (
        "update user_coupon set claim_no = 2015 where id = 2015",
        "update user_coupon set claim_no = 1 where id = 2015",
        "I3",
        "coupon 2015 has no number within the limit",
    ),
    (
        "update user_coupon set claim_no = 3 where id = 2015",
        "update user_coupon set claim_no = 1 where id = 2015",
        "I3",
        "user 15 holds 1 coupons (numbers 3 to 3)",
    ),
    (
        "update user_coupon set status = 4, version = 1 where id = 2011",
        "update user_coupon set status = 0, version = 2 where id = 2011",
        "I14",
        "coupon 2011: its hold did not end once",
    ),
    (
        "update user_coupon set status = 0, version = 2 where id = 2015",
        "update user_coupon set status = 4, version = 1 where id = 2015",
        "I14",
        "coupon 2015: its hold did not end once",
    ),
    (
        "update user_coupon set valid_until = valid_until + interval 1 second where id = 2015",
        "update user_coupon set valid_until = valid_until - interval 1 second where id = 2015",
        "I14",
        "coupon 2015: its hold did not end once",
    ),
    (
        "update user_coupon set valid_until = valid_until - interval 1 second where id = 2012",
        "update user_coupon set valid_until = valid_until + interval 1 second where id = 2012",
        "I14",
        "coupon 2012: its hold did not end once",
    ),
    (
        "update user_coupon set status = 3 where id = 2016",
        "update user_coupon set status = 5 where id = 2016",
        "I14",
        "coupon 2016: its hold did not end once",
    ),
    (
        "update user_coupon set valid_until = valid_until + interval 1 second where id = 2011",
        "update user_coupon set valid_until = valid_until - interval 1 second where id = 2011",
        "I14",
        "coupon 2011 has another validity than it was confirmed with",
    ),
    (
        "update user_coupon set changed_at = valid_until - interval 1 second where id = 2012",
        "update user_coupon set changed_at = (select created_at from stock_movement \
         where template_id = 8 and seq = 2) where id = 2012",
        "I9",
        "coupon 2012 lapsed at",
    ),
    (
        "update user_coupon set version = 3 where id = 2012",
        "update user_coupon set version = 2 where id = 2012",
        "I9",
        "coupon 2012 is lapsed at version 3",
    ),
    (
        "update user_coupon set version = 2 where id = 2015",
        "update user_coupon set version = 1 where id = 2015",
        "I9",
        "coupon 2015 is held at version 2",
    ),
    (
        "update user_coupon set valid_until = claimed_at - interval 1 minute where id = 2015",
        "update user_coupon set valid_until = claimed_at + interval 10 minute where id = 2015",
        "I9",
        "coupon 2015 is still held, its hold ended",
    ),
    (
        "update user_coupon set version = 3 where id = 2011",
        "update user_coupon set version = 2 where id = 2011",
        "I9",
        "coupon 2011 is unused at version 3",
    ),
    (
        "update claim set held_until = null where id = 212",
        "update claim set held_until = created_at + interval 10 minute where id = 212",
        "I14",
        "claim 212: its hold is not as its template",
    ),
    (
        "update claim set held_until = valid_until + interval 1 second where id = 215",
        "update claim set held_until = created_at + interval 10 minute where id = 215",
        "I14",
        "claim 215: its hold is not as its template",
    ),
];

const PAYMENTS: [Damage; 6] = [
    (
        "update coupon_payment set coupons = '2014' where payment_ref = 'p-11'",
        "update coupon_payment set coupons = '2011' where payment_ref = 'p-11'",
        "I14",
        "payment \"p-11\" is late, or its coupons",
    ),
    (
        "update coupon_payment set coupons = '2011,2999' where payment_ref = 'p-11'",
        "update coupon_payment set coupons = '2011' where payment_ref = 'p-11'",
        "I14",
        "payment \"p-11\" is late, or its coupons",
    ),
    (
        "update coupon_payment set merchant_id = 9 where payment_ref = 'p-11'",
        "update coupon_payment set merchant_id = 1 where payment_ref = 'p-11'",
        "I14",
        "coupon 2011: its hold did not end once",
    ),
    (
        "update coupon_payment set confirmed_at = confirmed_at + interval 1 hour where payment_ref = 'p-14'",
        "update coupon_payment set confirmed_at = confirmed_at - interval 1 hour where payment_ref = 'p-14'",
        "I14",
        "payment \"p-14\" is late",
    ),
    (
        "insert into coupon_payment select merchant_id, 'again', claim_id, coupons, confirmed_at, actor \
         from coupon_payment where payment_ref = 'p-11'",
        "delete from coupon_payment where payment_ref = 'again'",
        "I14",
        "coupon 2011: its hold did not end once",
    ),
    (
        "insert into coupon_payment select merchant_id, 'lapsed', 212, '2012', confirmed_at - interval 25 minute, actor \
         from coupon_payment where payment_ref = 'p-11'",
        "delete from coupon_payment where payment_ref = 'lapsed'",
        "I14",
        "coupon 2012: its hold did not end once",
    ),
];

/// Movements of template 8: 1 its creation; 2 the lapses of users 12 and 16; 3 the cancellation of user 13; 4 that of
/// user 14; 5 the lift for user 12.
const LEDGER: [Damage; 14] = [
    (
        "update stock_movement set delta_stock = 3 where template_id = 8 and seq = 2",
        "update stock_movement set delta_stock = 2 where template_id = 8 and seq = 2",
        "I15",
        "template 8: stock 7, movements 16 - landed 8",
    ),
    (
        "update stock_movement set delta = 9 where template_id = 8 and seq = 1",
        "update stock_movement set delta = 10 where template_id = 8 and seq = 1",
        "I15",
        "template 8: total 10, sum of movements 9",
    ),
    (
        "update stock_movement set seq = 9 where template_id = 8 and seq = 5",
        "update stock_movement set seq = 5 where template_id = 8 and seq = 9",
        "I15",
        "template 8: a number is missing",
    ),
    (
        "update stock_movement set returned = '12/2/1,16/1/1' where template_id = 8 and seq = 2",
        "update stock_movement set returned = '12/1/1,16/1/1' where template_id = 8 and seq = 2",
        "I15",
        "movement 2 gives user 12 what did not come back",
    ),
    (
        "update stock_movement set returned = '12/1/1' where template_id = 8 and seq = 2",
        "update stock_movement set returned = '12/1/1,16/1/1' where template_id = 8 and seq = 2",
        "I15",
        "what came back of user 16",
    ),
    (
        "update stock_movement set returned = '12/1/1,16/1/1,18//0' where template_id = 8 and seq = 2",
        "update stock_movement set returned = '12/1/1,16/1/1' where template_id = 8 and seq = 2",
        "I15",
        "movement 2 gives user 18 what did not come back",
    ),
    (
        "update stock_movement set returned = 'x' where template_id = 8 and seq = 2",
        "update stock_movement set returned = '12/1/1,16/1/1' where template_id = 8 and seq = 2",
        "I15",
        "movement 2 cannot be read",
    ),
    (
        "update stock_movement set kind = 0 where template_id = 8 and seq = 3",
        "update stock_movement set kind = 1 where template_id = 8 and seq = 3",
        "I15",
        "movement 3 is of no kind",
    ),
    (
        "update stock_movement set created_at = created_at + interval 1 second where template_id = 8 and seq = 3",
        "update stock_movement set created_at = created_at - interval 1 second where template_id = 8 and seq = 3",
        "I15",
        "more coupons came back at",
    ),
    (
        "update user_lapse set count = 2 where user_id = 16",
        "update user_lapse set count = 1 where user_id = 16",
        "I15",
        "lapses of user 16 are (2, 2)",
    ),
    (
        "update user_lapse set seq = 2 where user_id = 12",
        "update user_lapse set seq = 5 where user_id = 12",
        "I15",
        "lapses of user 12 are (0, 2)",
    ),
    (
        "update user_lapse set user_id = 18 where user_id = 16",
        "update user_lapse set user_id = 16 where user_id = 18",
        "I15",
        "1 lapses of user 16 are not counted",
    ),
    (
        "create or replace view stock_ledger as select id as template_id, 1 as quantity from coupon_template; \
         update user_lapse set count = count",
        "drop view stock_ledger; create view stock_ledger as select * from whole_ledger; \
         update user_lapse set count = count",
        "I15",
        "template 8: stock 7, the view of its ledger shows 1",
    ),
    (
        "update template_stock set total = total + 1, stock = stock + 1 where template_id = 8",
        "update template_stock set total = total - 1, stock = stock - 1 where template_id = 8",
        "I15",
        "template 8: total 11, sum of movements 10",
    ),
];

/// A ledger is checked at every moment too, so that a return which is not a movement is seen while it happens.
#[tokio::test]
async fn a_return_without_a_movement_breaks_i1_while_it_happens() {
    let stage = Stage::new("returns").await;
    hold(&stage).await;
    let sampler = verifier::Sampler::start(stage.sources.pool.clone());
    stage.sql("drop trigger user_coupon_version; update user_coupon set version = version").await;
    stage
        .sql(
            "begin; update user_coupon set status = 3, issued_no = claim_no, claim_no = id where id = 2015; \
             update template_stock set stock = stock + 1 where template_id = 8; commit",
        )
        .await;
    testkit::until(async || stage.outcome("I15").await, |one| blames(one, "stock 8")).await;
    let sampled = sampler.stop().await;
    assert!(blames(&sampled, "template 8: stock 8, movements 15 - landed 8"), "{sampled}");
}

/// The holds are of the stage's own template, because its gate is open.
#[tokio::test]
async fn lapses_and_users_of_returned_coupons_that_the_gate_does_not_know_break_i7() {
    let stage = Stage::new("lapses at the gate").await;
    stage.sql("update coupon_template set lapses_allowed = 2 where id = 7").await;
    let gate = stage.scope.endpoints.gate_redis_url.clone();
    stage.redis(&gate, "HSET {p}gate:1:{7:0}:meta lapses_allowed 2").await;
    stage.sql("insert into user_lapse values (7, 1, 1, 1)").await;
    let outcome = stage.outcome("I7").await;
    assert!(blames(&outcome, "user 1 let 1 holds lapse in MySQL, 0 in the gate"), "{outcome}");
    stage.sql("update user_lapse set user_id = 9").await;
    let outcome = stage.outcome("I7").await;
    assert!(blames(&outcome, "user 9 let holds lapse, and has no entry"), "{outcome}");
    stage.sql("update user_lapse set count = 0").await;
    assert!(matches!(stage.outcome("I7").await.verdict, Verdict::Holds { .. }));
    let returned = "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, \
                    status, version, expiry_shard, claimed_at, changed_at, valid_from, valid_until, issued_no) \
                    select 9001, 7, 9, 9001, 9000, merchant_id, 5, 2, expiry_shard, claimed_at, changed_at, \
                    valid_from, valid_until, 1 from user_coupon where id = 1001";
    stage.sql(returned).await;
    let outcome = stage.outcome("I7").await;
    assert!(blames(&outcome, "user 9 gave coupons back, and has no entry"), "{outcome}");
}

async fn each_is_found(name: &str, damages: &[Damage]) {
    let stage = Stage::new(name).await;
    hold(&stage).await;
    // The damages are changes that no version tells of.
    stage.sql("drop trigger user_coupon_version; update user_coupon set version = version").await;
    let whole = include_str!("../../../../migrations/20261124000031_stock_ledger.sql");
    let whole = whole.replace("stock_ledger", "whole_ledger");
    stage.sql(&format!("{whole} update user_lapse set count = count")).await;
    assert_sound(&stage, "the holds").await;
    for (damage, undo, invariant, text) in damages {
        stage.sql(damage).await;
        let outcome = stage.outcome(invariant).await;
        assert!(blames(&outcome, text), "{damage}: {outcome}");
        stage.sql(undo).await;
        assert_sound(&stage, damage).await;
    }
}

/// Asserts what MySQL alone shows. Gates, topics and views have not heard of the holds.
async fn assert_sound(stage: &Stage, after: &str) {
    let report = stage.report().await;
    for outcome in &report.outcomes {
        let is_of_mysql = ["I2", "I3", "I9", "I14", "I15"].contains(&outcome.invariant);
        let holds = matches!(outcome.verdict, Verdict::Holds { .. });
        assert!(holds || !is_of_mysql, "after {after}: {outcome}");
    }
}

/// Sets holds up that ended in every way, by the stores' own functions.
async fn hold(stage: &Stage) {
    let now = Clock::system().now().trunc_subsecs(3);
    publish(stage, now).await;
    let earlier = now - TimeDelta::minutes(30);
    let just_now = now - TimeDelta::minutes(1);
    for (user, claimed_at) in [11, 12, 14, 15, 16, 18]
        .map(|user| (user, if [12, 16].contains(&user) { earlier } else { just_now }))
    {
        land(stage, user, &[(2000 + user, 1)], claimed_at).await;
    }
    land(stage, 13, &[(2013, 1), (2113, 2)], just_now).await;
    for user in [11, 14, 18] {
        confirm(stage, user, now).await;
    }
    give_back(stage, Cause::Lapse, &[2012, 2016], now).await;
    give_back(stage, Cause::User, &[2013, 2113], now + TimeDelta::milliseconds(1)).await;
    give_back(stage, Cause::Shop, &[2014], now + TimeDelta::milliseconds(2)).await;
    let mut transaction = begin(stage).await;
    let lifted = returns::lift(&mut transaction, HOLDS, UserId(12), "sorry", "test", now).await;
    assert_eq!(lifted.unwrap(), Some(5));
    connect::commit(transaction).await.unwrap();
}

async fn publish(stage: &Stage, now: DateTime<Utc>) {
    let mut connection = stage.mysql().await;
    let draft = Template {
        per_user_limit: 2,
        max_per_claim: 2,
        validity: Validity::Relative { valid_for: TimeDelta::hours(1) },
        hold: HoldTerms {
            hold: Some(TimeDelta::minutes(10)),
            lapses_allowed: 2,
            returned_stock: ReturnedStock::Resell,
        },
        ..testkit::draft(HOLDS, now)
    };
    template::create(&mut connection, &draft, 10, "test", now).await.unwrap();
    let next = TemplateState::Published;
    assert!(template::change_state(&mut connection, &draft, next, now).await.unwrap());
}

async fn land(stage: &Stage, user: i64, coupons: &[(i64, i64)], claimed_at: DateTime<Utc>) {
    let id = ClaimId(200 + user);
    let quantity = u32::try_from(coupons.len()).unwrap();
    let claim =
        testkit::claim(id, HOLDS, UserId(user), &format!("key-{user}"), quantity, claimed_at);
    let numbers = coupons.iter().map(|(_, number)| u8::try_from(*number).unwrap()).collect();
    let landed = LandedClaim {
        valid_until: claimed_at + TimeDelta::hours(1),
        held_until: Some(claimed_at + TimeDelta::minutes(10)),
        ..testkit::landed(&claim, coupons.iter().map(|(id, number)| (CouponId(*id), *number)))
    };
    let landing = landing::Landing {
        admission: Admission { claim, epoch: Epoch(1), numbers },
        merchant_id: MerchantId(1),
        terms: 1,
        landed,
        admitted_at: None,
        left_after: None,
    };
    let attempt =
        landing::land(&mut stage.mysql().await, LandingMode::Direct, &[landing]).await.unwrap();
    assert_eq!(attempt, landing::Attempt::Landed);
}

async fn confirm(stage: &Stage, user: i64, now: DateTime<Utc>) {
    let mut transaction = begin(stage).await;
    let reference = format!("p-{user}");
    let coupons = [CouponId(2000 + user)];
    let payment = Payment {
        actor: "platform",
        merchant: MerchantId(1),
        payment_ref: &reference,
        claim: ClaimId(200 + user),
        template: HOLDS,
        coupons: &coupons,
        now,
    };
    let confirmed = confirmation::confirm(&mut transaction, &payment).await.unwrap();
    assert!(matches!(confirmed, Confirmation::Confirmed(_)), "{confirmed:?}");
    connect::commit(transaction).await.unwrap();
}

async fn give_back(stage: &Stage, cause: Cause, ids: &[i64], now: DateTime<Utc>) {
    let mut transaction = begin(stage).await;
    let ids: Vec<CouponId> = ids.iter().copied().map(CouponId).collect();
    let given = Return {
        template: HOLDS,
        returned_stock: ReturnedStock::Resell,
        cause,
        reason: "test",
        actor: "test",
        now,
    };
    let back = given.of(&mut transaction, &ids).await.unwrap().unwrap();
    assert_eq!(back.coupons.len(), ids.len());
    connect::commit(transaction).await.unwrap();
}

/// The stage's own connections only read.
async fn begin(stage: &Stage) -> connect::Transaction {
    let pool = connect::pool(&stage.scope.endpoints.database_url, 1).await.unwrap();
    connect::begin(&pool).await.unwrap()
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_hold_that_did_not_end_once_and_as_its_claim_says_breaks_i14_or_i9() {
        each_is_found("holds", &COUPONS).await;
    }

    #[tokio::test]
    async fn a_payment_that_did_not_confirm_what_it_says_breaks_i14() {
        each_is_found("payments", &PAYMENTS).await;
    }

    #[tokio::test]
    async fn a_ledger_that_does_not_add_up_breaks_i15() {
        each_is_found("ledger", &LEDGER).await;
    }
}
