//! Payments for claims that MySQL does not know do not delay the others in their partition.

use coupon::{ClaimId, QueuedClaim};
use mysql_store::{connect, settings};
use runtime::{Clock, FailPoints};
use testkit::{MERCHANT, until};
use topic::{PaymentMessage, committed_offsets};

use crate::{
    early_payments::{id_of, later},
    harness::{Harness, claim},
    payments::{HELD, PAYMENTS, TEMPLATE, USABLE, payment, reasons},
};

/// Payments for unknown claims: more than one batch.
const WRONG: i64 = 100;

/// Valid payments among them.
const RIGHT: i64 = 20;

/// A clock that stands still at MySQL's time.
async fn clock(test: &Harness) -> Clock {
    let mut connection = connect::single(&test.scope.endpoints.database_url).await.unwrap();
    Clock::manual(settings::server_time(&mut connection).await.unwrap())
}

/// Lands held claims of as many users.
async fn landed(test: &Harness, count: i64) -> Vec<QueuedClaim> {
    let lander = test.start();
    let claims: Vec<_> = (1..=count).map(|user| claim(TEMPLATE, user)).collect();
    test.landed(TEMPLATE, claims.iter().cloned()).await;
    lander.stop().await.unwrap();
    claims
}

/// Sends payments to one partition.
async fn pay_in_order(test: &Harness, payments: &[PaymentMessage]) {
    for payment in payments {
        test.pay_raw("7", &payment.encode()).await;
    }
}

/// A payment for a claim that was never made, with an id of this moment.
fn wrong(clock: &Clock, number: i64) -> PaymentMessage {
    PaymentMessage {
        claim_id: ClaimId(id_of(clock.now()).0 + number),
        merchant_id: MERCHANT,
        payment_ref: format!("wrong-{number}"),
        coupons: None,
    }
}

/// The clock stands still, so no wait for a claim ends by itself.
#[tokio::test(flavor = "multi_thread")]
async fn payments_go_on_while_wrong_ones_wait_and_a_crash_loses_and_doubles_none() {
    let test = Harness::new("payments beside wrong ones").await;
    test.holding(TEMPLATE, 1).await;
    let claims = landed(&test, RIGHT + 2).await;
    let clock = clock(&test).await;
    let (first, last) = claims.split_at(usize::try_from(RIGHT).unwrap());
    let mut all = Vec::new();
    for (right, number) in first.iter().zip(0..) {
        all.push(payment(right, &format!("right-{number}")));
        let each = WRONG / RIGHT;
        all.extend((number * each..(number + 1) * each).map(|number| wrong(&clock, number)));
    }
    pay_in_order(&test, &all).await;
    let lander = test.start_on(&clock, |_| {});
    until(async || test.number(USABLE).await, |usable| *usable == RIGHT).await;
    assert!(test.dead_letters().await.is_empty(), "the wrong ones wait");
    lander.kill().await;
    let brokers = &test.scope.endpoints.kafka_brokers;
    let group = test.names.payments_group();
    let stored = committed_offsets(brokers, &group, &test.names.payments()).await.unwrap();
    assert!(stored.values().sum::<i64>() <= 1, "only the first payment has all before it ended");

    let lander = test.start_on(&clock, |_| {});
    // A plain payment may overtake others of its own batch, but none of an earlier batch.
    for (last, usable) in last.iter().zip(RIGHT + 1..) {
        pay_in_order(&test, &[payment(last, &format!("last-{usable}"))]).await;
        until(async || test.number(USABLE).await, |now| *now == usable).await;
    }
    clock.set(later(clock.now()));
    test.paid_up().await;
    let counts = [HELD, USABLE, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [0, RIGHT + 2, RIGHT + 2]);
    let letters = reasons(&test.dead_letters().await);
    assert_eq!(letters.len(), usize::try_from(WRONG).unwrap(), "{letters:?}");
    assert!(letters.iter().all(|why| why.contains("had not landed 60 s later")), "{letters:?}");
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_for_a_claim_that_is_waited_for_stay_in_order_while_others_go_on() {
    let test = Harness::new("payments in order").await;
    test.holding(TEMPLATE, 1).await;
    let others = landed(&test, 2).await;
    let clock = clock(&test).await;
    let points = FailPoints::default();
    let mut landing = points.hold("lander.after_take");
    let lander = test.start_on(&clock, |config| config.fail_points = points.clone());
    let mut early = claim(TEMPLATE, 9);
    early.admission.claim.id = id_of(clock.now());
    test.queue(std::slice::from_ref(&early)).await;
    landing.reached(1).await;
    let refs = ["first", "second", "third"];
    let [first, second, third] = refs.map(|one| payment(&early, one));
    let one = payment(&others[0], "one");
    let other = payment(&others[1], "other");
    pay_in_order(&test, &[first, second, one]).await;
    until(async || test.number(PAYMENTS).await, |paid| *paid == 1).await;
    // These are in a later batch, because the previous one was taken.
    pay_in_order(&test, &[third, other]).await;
    until(async || test.number(PAYMENTS).await, |paid| *paid == 2).await;
    landing.let_go();
    test.paid_up().await;
    let won = "select count(*) from coupon_payment where payment_ref = 'first'";
    let counts = [HELD, USABLE, PAYMENTS, won].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [0, 3, 3, 1]);
    let letters = reasons(&test.dead_letters().await);
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters.iter().all(|why| why.contains("is unused, and not held")), "{letters:?}");
    lander.stop().await.unwrap();
}
