//! Payments from their topic: each confirms its coupons once, whatever happens to its message.

use chrono::TimeDelta;
use coupon::{ClaimId, CouponId, HoldTerms, QueuedClaim, Template, TemplateId};
use devstack::{Flavor, OwnDatabase};
use mysql_store::{connect, settings, verify};
use runtime::FailPoints;
use testkit::{MERCHANT, until, until_true};
use topic::{Message, PaymentMessage, decode_payment};

use crate::harness::{Harness, claim, now};

pub(crate) const TEMPLATE: TemplateId = TemplateId(10);

/// A template whose claims are held for a day.
const SLOW: TemplateId = TemplateId(11);

pub(crate) const HELD: &str = "select count(*) from user_coupon where status = 4";
pub(crate) const USABLE: &str = "select count(*) from user_coupon where status = 0";
pub(crate) const PAYMENTS: &str = "select count(*) from coupon_payment";
const LATE: &str = "select count(*) from late_payment";

/// Everything that a payment can change.
const ENDS: &str = "select cast(coalesce(sum(crc32(concat_ws('/', id, status, version, valid_until, \
                    changed_at))), 0) as signed) from user_coupon";

impl Harness {
    /// Publishes a template whose claims are held for `hours`.
    pub(crate) async fn holding(&self, id: TemplateId, hours: i64) {
        let hold = HoldTerms { hold: Some(TimeDelta::hours(hours)), ..HoldTerms::default() };
        self.publish(Template { hold, ..testkit::draft(id, now()) }, 1_000).await;
    }

    /// Lands claims of one template.
    pub(crate) async fn landed(
        &self,
        template: TemplateId,
        claims: impl Iterator<Item = QueuedClaim>,
    ) {
        let claims: Vec<_> = claims.collect();
        self.queue_all(&claims).await;
        self.caught_up().await;
        let all = claims.len();
        let ids = claims.iter().map(|one| one.admission.claim.id);
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        let ids = ids.join(", ");
        let held = format!(
            "select count(distinct claim_id) from user_coupon where status = 4 \
             and template_id = {template} and claim_id in ({ids})"
        );
        assert_eq!(self.number(&held).await, i64::try_from(all).unwrap());
        // The tests' claims are made in the servers' future; their holds end from here on.
        let hours = if template == SLOW { 24 } else { 1 };
        let sooner = format!(
            "update user_coupon set version = version + 1, \
             valid_until = utc_timestamp(3) + interval {hours} hour where claim_id in ({ids})"
        );
        self.execute(&sooner).await;
    }

    async fn execute(&self, sql: &str) {
        let mut connection = connect::single(&self.scope.endpoints.database_url).await.unwrap();
        verify::execute(&mut connection, sql).await.unwrap();
    }

    pub(crate) async fn pay(&self, payments: &[PaymentMessage]) {
        for payment in payments {
            self.pay_raw(&payment.key(), &payment.encode()).await;
        }
    }

    pub(crate) async fn pay_raw(&self, key: &str, payload: &[u8]) {
        let topic = self.names.payments();
        self.producer.send(&topic, None, key.as_bytes(), payload, &[]).await.unwrap();
    }

    async fn coupons_of(&self, claim: ClaimId) -> Vec<CouponId> {
        let mut ids = Vec::new();
        let next = async |after: i64| {
            self.number(&format!(
                "select coalesce(min(id), 0) from user_coupon where claim_id = {claim} and id > {after}"
            ))
            .await
        };
        loop {
            match next(ids.last().map_or(0, |id: &CouponId| id.0)).await {
                0 => return ids,
                id => ids.push(CouponId(id)),
            }
        }
    }
}

pub(crate) fn payment(claim: &QueuedClaim, payment_ref: &str) -> PaymentMessage {
    PaymentMessage {
        claim_id: claim.admission.claim.id,
        merchant_id: MERCHANT,
        payment_ref: payment_ref.to_owned(),
        coupons: None,
    }
}

/// A claim of several coupons.
fn claim_of(user: i64, quantity: u8) -> QueuedClaim {
    let mut claim = claim(TEMPLATE, user);
    claim.admission.claim.quantity = u32::from(quantity);
    claim.admission.numbers = (1..=quantity).collect();
    claim
}

pub(crate) fn reasons(letters: &[Message]) -> Vec<String> {
    let reason =
        |letter: &Message| String::from_utf8(letter.header("reason").unwrap().to_vec()).unwrap();
    let mut reasons: Vec<_> = letters.iter().map(reason).collect();
    reasons.sort_unstable();
    reasons
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_confirms_its_claim_whole_or_the_coupons_that_it_names() {
    let test = Harness::new("payments whole").await;
    test.holding(TEMPLATE, 1).await;
    let lander = test.start();
    let whole = claim_of(1, 3);
    let part = claim_of(2, 3);
    test.landed(TEMPLATE, [whole.clone(), part.clone()].into_iter()).await;
    assert_eq!(test.number(HELD).await, 6);
    let mut named = test.coupons_of(part.admission.claim.id).await;
    named.remove(1);
    named.reverse();
    let part = PaymentMessage { coupons: Some(named.clone()), ..payment(&part, "part") };
    test.pay(&[payment(&whole, "whole"), part]).await;
    test.paid_up().await;
    let counts = [HELD, USABLE, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [1, 5, 2]);
    let valid = "select count(*) from user_coupon where status = 0 and version = 3 \
                 and valid_until between utc_timestamp(3) + interval 23 hour \
                 and utc_timestamp(3) + interval 24 hour";
    assert_eq!(test.number(valid).await, 5, "valid for a day from the confirmation");
    assert!(test.dead_letters().await.is_empty());
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn doubled_shuffled_and_late_payments_change_no_end() {
    let test = Harness::new("payments shuffled").await;
    test.holding(TEMPLATE, 1).await;
    let lander = test.start();
    let claims: Vec<_> = (1..=60).map(|user| claim(TEMPLATE, user)).collect();
    test.landed(TEMPLATE, claims.iter().cloned()).await;
    // A third of the claims is paid for twice, a third not at all and lapses.
    let mut once: Vec<_> =
        claims.iter().take(40).map(|one| payment(one, &reference(one))).collect();
    once.extend(claims.iter().take(20).map(|one| payment(one, &format!("{}-b", reference(one)))));
    let seed = fastrand::u64(..);
    println!("shuffled by seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = [once.clone(), once.clone(), once].concat();
    random.shuffle(&mut all);
    test.pay(&all).await;
    test.paid_up().await;
    let counts = [HELD, USABLE, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [20, 40, 40]);
    // One of two payments won each of the first twenty claims; the other is a dead letter each time.
    let letters = test.dead_letters().await;
    assert_eq!(letters.len(), 60);
    assert!(reasons(&letters).iter().all(|why| why.contains("is unused, and not held")));
    assert_eq!(test.number(LATE).await, 20, "each once");
    lander.kill().await;

    let over = "update user_coupon set version = version + 1, \
                valid_until = utc_timestamp(3) - interval 1 second where status = 4";
    test.execute(over).await;
    let before = test.number(ENDS).await;
    random.shuffle(&mut all);
    all.extend(claims.iter().skip(40).map(|one| payment(one, &reference(one))));
    test.pay(&all).await;
    let lander = test.start();
    test.paid_up().await;
    assert_eq!(test.number(ENDS).await, before);
    assert_eq!(test.number(PAYMENTS).await, 40);
    let letters = test.dead_letters().await;
    let late = reasons(&letters).iter().filter(|why| why.contains("lapsed at")).count();
    assert_eq!((letters.len(), late), (140, 20));
    let lapsed = "select count(*) from late_payment where refusal = 0 and actor = 'topic'";
    assert_eq!(test.number(LATE).await, 40);
    assert_eq!(test.number(lapsed).await, 20);
    lander.stop().await.unwrap();
}

fn reference(claim: &QueuedClaim) -> String {
    format!("pay-{}", claim.admission.claim.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_confirms_nothing_is_put_aside_with_its_reason_and_the_rest_is_taken() {
    let test = Harness::new("payments refused").await;
    test.holding(TEMPLATE, 1).await;
    let lander = test.start();
    let claims: Vec<_> = (1..=3).map(|user| claim(TEMPLATE, user)).collect();
    test.landed(TEMPLATE, claims.iter().cloned()).await;
    let unknown = payment(&claim(TEMPLATE, 9), "unknown");
    let foreign = PaymentMessage { merchant_id: coupon::MerchantId(2), ..payment(&claims[1], "b") };
    let other = test.coupons_of(claims[2].admission.claim.id).await;
    let mixed = PaymentMessage { coupons: Some(other), ..payment(&claims[1], "c") };
    // All in one partition, so that they are taken in this order.
    let same = |payment: &PaymentMessage| ("7", payment.encode());
    for (key, payload) in [
        same(&payment(&claims[0], "a")),
        ("7", b"{".to_vec()),
        same(&payment(&claims[2], "a")),
        same(&unknown),
        same(&foreign),
        same(&mixed),
        same(&payment(&claims[1], "d")),
    ] {
        test.pay_raw(key, &payload).await;
    }
    test.paid_up().await;
    let counts = [HELD, USABLE, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [1, 2, 2]);
    let letters = test.dead_letters().await;
    assert_eq!(letters.len(), 5);
    for letter in &letters {
        assert_eq!(letter.header("source-topic").unwrap(), test.names.payments().as_bytes());
        assert_eq!(letter.key, b"7");
    }
    let reasons = reasons(&letters);
    let has = |words: &str| reasons.iter().filter(|why| why.contains(words)).count();
    assert_eq!(has("the reference confirmed something else"), 1, "{reasons:?}");
    assert_eq!(has("the merchant has no such claim"), 3, "{reasons:?}");
    // The payment can be sent again unchanged.
    let again = letters.iter().filter_map(|one| decode_payment(one.payload.as_deref()?).ok());
    assert_eq!(again.filter(|payment| *payment == unknown).count(), 1);
    lander.stop().await.unwrap();
}

/// The claims are found, and the coupons confirmed, for all of a batch at once.
#[tokio::test(flavor = "multi_thread")]
async fn payments_that_wait_share_a_transaction_and_a_wrong_one_among_them_is_put_aside_alone() {
    let test = Harness::new("payments together").await;
    test.holding(TEMPLATE, 1).await;
    let lander = test.start();
    let claims: Vec<_> = (1..=30).map(|user| claim(TEMPLATE, user)).collect();
    test.landed(TEMPLATE, claims.iter().cloned()).await;
    lander.stop().await.unwrap();
    // All in one partition, so that they wait for one reader.
    let (first, rest) = claims.split_at(15);
    for claim in first {
        test.pay_raw("7", &payment(claim, &reference(claim)).encode()).await;
    }
    test.pay_raw("7", b"{").await;
    test.pay_raw("7", &payment(&first[0], "again").encode()).await;
    for claim in rest {
        test.pay_raw("7", &payment(claim, &reference(claim)).encode()).await;
    }
    let lander = test.start();
    test.paid_up().await;
    let counts = [HELD, USABLE, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [0, 30, 30]);
    let transactions = test.number("select count(distinct confirmed_at) from coupon_payment").await;
    assert!(transactions < 30, "{transactions} transactions for 30 payments");
    let reasons = reasons(&test.dead_letters().await);
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.iter().any(|why| why.contains("is unused, and not held")), "{reasons:?}");
    lander.stop().await.unwrap();
}

/// The shorter holds are over by the lander's clock, but not by MySQL's.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_without_a_definite_answer_waits_and_holds_up_no_other_partition() {
    let test = Harness::new("payments unsure").await;
    test.holding(TEMPLATE, 1).await;
    test.holding(SLOW, 24).await;
    let lander = test.start();
    let (short, long): (Vec<_>, Vec<_>) =
        (1..=40).map(|user| (claim(TEMPLATE, user), claim(SLOW, user))).unzip();
    test.landed(TEMPLATE, short.iter().cloned()).await;
    test.landed(SLOW, long.iter().cloned()).await;
    lander.stop().await.unwrap();

    let mut connection = connect::single(&test.scope.endpoints.database_url).await.unwrap();
    let time = settings::server_time(&mut connection).await.unwrap();
    let lander = test.start_at(time + TimeDelta::hours(2));
    // A payment's key decides its partition: one of four waits for the first payment, the others are taken.
    test.pay(&[payment(&short[0], "unsure")]).await;
    let paid: Vec<_> = long.iter().map(|one| payment(one, &reference(one))).collect();
    test.pay(&paid).await;
    until(async || test.number(USABLE).await, |usable| *usable >= 10).await;
    let waits = format!(
        "select count(*) from user_coupon where status = 4 and claim_id = {}",
        short[0].admission.claim.id
    );
    assert_eq!(test.number(&waits).await, 1);
    assert!(test.dead_letters().await.is_empty());
    lander.stop().await.unwrap();

    let lander = test.start();
    test.paid_up().await;
    let counts = [HELD, USABLE].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [39, 41]);
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lander_that_dies_at_any_step_of_a_payment_loses_and_doubles_nothing() {
    let test = Harness::new("payments kills").await;
    test.holding(TEMPLATE, 1).await;
    let first = test.start();
    let claims: Vec<_> = (1..=9).map(|user| claim(TEMPLATE, user)).collect();
    test.landed(TEMPLATE, claims.iter().cloned()).await;
    first.stop().await.unwrap();
    let steps = ["payments.before_commit", "payments.after_commit", "payments.before_offset"];
    for (claims, step) in claims.chunks(3).zip(steps) {
        let paid = test.number(PAYMENTS).await;
        let points = FailPoints::default();
        let mut held = points.hold(step);
        let lander = test.start_changed(|config| config.fail_points = points.clone());
        let payments: Vec<_> = claims.iter().map(|one| payment(one, &reference(one))).collect();
        test.pay(&payments).await;
        held.reached(1).await;
        assert_eq!(test.number(PAYMENTS).await > paid, step != "payments.before_commit", "{step}");
        lander.kill().await;
        held.let_go();
        let lander = test.start();
        test.paid_up().await;
        lander.stop().await.unwrap();
        let counts = [USABLE, PAYMENTS].map(|sql| test.number(sql));
        assert_eq!(futures::future::join_all(counts).await, [paid + 3, paid + 3], "{step}");
    }
    assert!(test.dead_letters().await.is_empty());
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn while_mysql_is_away_payments_wait_and_none_is_put_aside() {
        let mut own =
            OwnDatabase::start("payments-mysql-away", Flavor::Mariadb, &[]).await.unwrap();
        let test = Harness::on_database("payments mysql away", &own.url()).await;
        test.holding(TEMPLATE, 1).await;
        let lander = test.start();
        let claims: Vec<_> = (1..=20).map(|user| claim(TEMPLATE, user)).collect();
        test.landed(TEMPLATE, claims.iter().cloned()).await;
        own.server.kill().unwrap();
        let payments: Vec<_> = claims.iter().map(|one| payment(one, &reference(one))).collect();
        test.pay(&payments).await;
        lander.until_unready("mysql", "").await;
        own.server.start().await.unwrap();
        test.paid_up().await;
        until_true(async || test.number(USABLE).await == 20).await;
        assert!(test.dead_letters().await.is_empty());
        lander.stop().await.unwrap();
    }
}
