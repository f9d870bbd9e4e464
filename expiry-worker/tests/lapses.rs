//! Holds lapse at their deadlines, each once, and give back what they took.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, CouponId, MerchantId, ReturnedStock, TemplateId};
use mysql_store::{
    MySqlPool, StoreError,
    confirmation::{self, Confirmation, Payment},
    connect,
    returns::{Cause, Return},
};
use runtime::Clock;
use testkit::sql_time;

use crate::{
    harness::{Harness, SHARD},
    holds::CANCELLED,
};

#[tokio::test(flavor = "multi_thread")]
async fn holds_of_all_templates_lapse_at_their_deadline_beside_coupons_that_expire() {
    let mut test = Harness::new("lapse storm").await;
    test.template(11, ReturnedStock::Resell).await;
    test.template(12, ReturnedStock::Retire).await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    let deadline = test.now().await + TimeDelta::seconds(1);
    // Template 11 has chunks of many sizes, template 12 full ones of one shard.
    test.hold(11, 1..701, deadline).await;
    test.hold_in_shard(12, 1_000..1_400, deadline).await;
    test.insert_many(2_000, 300, deadline).await;
    let later = deadline + TimeDelta::days(1);
    test.hold(11, 5_000..5_010, later).await;
    for shard in 0..64 {
        test.wake(shard, deadline).await;
    }
    test.until_lapsed(1_100).await;
    test.until_expired(300).await;
    worker.stop().await.unwrap();
    test.books_balance(11).await;
    test.books_balance(12).await;
    let left = "select count(*) from user_coupon where status = 4";
    assert_eq!(test.number(left).await, 10);
    let retired = "select total from template_stock where template_id = 12";
    assert_eq!(test.number(retired).await, crate::holds::STOCK - 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_hold_lapses_after_its_wake_up_or_a_start_or_a_sweep() {
    let mut test = Harness::new("lone lapse").await;
    test.template(1, ReturnedStock::Resell).await;
    let now = test.now().await;
    test.hold_in_shard(1, 1..2, now - TimeDelta::days(1)).await;
    let worker = test.start_with(|config| config.sweep_seconds = 1);
    worker.until_part_ready("partitions").await;
    test.until_lapsed(1).await;
    let deadline = test.now().await + TimeDelta::milliseconds(300);
    test.hold_in_shard(1, 2..3, deadline).await;
    test.wake(SHARD, deadline).await;
    test.until_lapsed(2).await;
    // Claimed at the beginning of the year, so its wake-up counts as lost.
    test.hold_in_shard(1, 3..4, test.time() - TimeDelta::hours(1)).await;
    test.until_lapsed(3).await;
    worker.stop().await.unwrap();
    test.books_balance(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_ahead_lapses_no_hold_before_mysqls_clock_says_so() {
    let mut test = Harness::new("lapse skew").await;
    test.template(1, ReturnedStock::Resell).await;
    let clock = Clock::manual(test.time() + AHEAD);
    let ahead = clock.clone();
    let running = tokio::spawn(async move {
        loop {
            ahead.set(Clock::system().now() + AHEAD);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    let worker = test.start_by(clock);
    worker.until_part_ready("partitions").await;
    // Due by the worker's clock at once.
    let deadline = test.now().await + AHEAD;
    test.hold_in_shard(1, 1..200, deadline).await;
    test.wake(SHARD, deadline).await;
    // Each look also reads MySQL's clock.
    test.until_lapsed(199).await;
    worker.stop().await.unwrap();
    running.abort();
    test.books_balance(1).await;
}

/// How far a clock is ahead: less than stops the worker.
const AHEAD: TimeDelta = TimeDelta::milliseconds(1_500);

/// Holds that are confirmed, or cancelled, at their very deadline.
const RACING: i64 = 10_000;

/// Connections that confirm and cancel.
const SHOPS: u32 = 6;

/// How long before the deadline the race begins.
const BEFORE: TimeDelta = TimeDelta::milliseconds(1_500);

async fn wait_until(time: DateTime<Utc>) {
    let wait = (time - Clock::system().now()).to_std().unwrap_or_default();
    tokio::time::sleep(wait).await;
}

/// Confirms the coupon with this id until there is a definite answer, and returns whether it is confirmed.
async fn is_confirmed(pool: &MySqlPool, id: i64) -> bool {
    loop {
        match confirm(pool, id).await {
            Ok(Confirmation::Confirmed(_) | Confirmation::Replayed { .. }) => return true,
            Ok(Confirmation::Lapsed { .. }) => return false,
            Ok(Confirmation::Unsure) => {}
            Ok(other) => panic!("{id}: {other:?}"),
            Err(error) => assert!(error.is_conflict(), "{error:?}"),
        }
    }
}

/// Cancels the coupon with this id as its user, and returns whether it was still held.
async fn is_cancelled_in_time(pool: &MySqlPool, id: i64) -> bool {
    loop {
        match cancel(pool, id).await {
            Ok(is_cancelled) => return is_cancelled,
            Err(error) => assert!(error.is_conflict(), "{error:?}"),
        }
    }
}

async fn cancel(pool: &MySqlPool, id: i64) -> Result<bool, StoreError> {
    let mut transaction = connect::begin(pool).await?;
    let back = Return {
        template: TemplateId(1),
        returned_stock: ReturnedStock::Resell,
        cause: Cause::User,
        reason: CANCELLED,
        actor: "user",
        now: Clock::system().now(),
    };
    let back = back.of(&mut transaction, &[CouponId(id)]).await?;
    if back.is_some() {
        connect::commit(transaction).await?;
    }
    Ok(back.is_some())
}

async fn confirm(pool: &MySqlPool, id: i64) -> Result<Confirmation, StoreError> {
    let mut transaction = connect::begin(pool).await?;
    let payment = Payment {
        actor: "platform",
        merchant: MerchantId(1),
        payment_ref: &format!("pay-{id}"),
        claim: ClaimId(id),
        template: TemplateId(1),
        coupons: &[CouponId(id)],
        now: Clock::system().now(),
    };
    let confirmation = confirmation::confirm(&mut transaction, &payment).await?;
    if matches!(confirmation, Confirmation::Confirmed(_)) {
        connect::commit(transaction).await?;
    }
    Ok(confirmation)
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn workers_that_come_and_go_lapse_each_hold_once() {
        let mut test = Harness::new("lapse come and go").await;
        test.template(1, ReturnedStock::Resell).await;
        let mut workers = vec![test.start()];
        workers[0].until_part_ready("partitions").await;
        let now = test.now().await;
        for part in 0..20 {
            let deadline = now + TimeDelta::milliseconds(150 * part);
            test.hold(1, part * 100 + 1..part * 100 + 101, deadline).await;
            for shard in 0..64 {
                test.wake(shard, deadline).await;
            }
        }
        for round in 0..3 {
            let fresh = test.start();
            fresh.until_part_ready("partitions").await;
            let old = workers.remove(0);
            if round % 2 == 0 {
                old.kill().await;
            } else {
                old.stop().await.unwrap();
            }
            workers.push(fresh);
        }
        test.until_lapsed(2_000).await;
        for worker in workers {
            worker.stop().await.unwrap();
        }
        test.books_balance(1).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_a_confirmation_a_cancellation_and_a_lapse_at_the_very_deadline_one_wins_each_coupon()
     {
        let mut test = Harness::new("lapse race").await;
        test.template(1, ReturnedStock::Resell).await;
        let worker = test.start();
        worker.until_part_ready("partitions").await;
        let deadline = test.now().await + TimeDelta::seconds(8);
        test.hold(1, 1..RACING + 1, deadline).await;
        for shard in 0..64 {
            test.wake(shard, deadline).await;
        }
        let pool = connect::pool(&test.scope.endpoints.database_url, SHOPS).await.unwrap();
        let next = Arc::new(AtomicI64::new(1));
        let ended = Arc::new([AtomicI64::new(0), AtomicI64::new(0)]);
        let shops: Vec<_> = (0..SHOPS)
            .map(|_| {
                let pool = pool.clone();
                let next = Arc::clone(&next);
                let ended = Arc::clone(&ended);
                tokio::spawn(async move {
                    loop {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        if id > RACING {
                            return;
                        }
                        // Some end early, the rest around the deadline. Every third one is cancelled.
                        if id > RACING / 50 {
                            wait_until(deadline - BEFORE).await;
                        }
                        let is_cancelled = id % 3 == 0;
                        let is_in_time = if is_cancelled {
                            is_cancelled_in_time(&pool, id).await
                        } else {
                            is_confirmed(&pool, id).await
                        };
                        if is_in_time {
                            ended[usize::from(is_cancelled)].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        for shop in shops {
            shop.await.unwrap();
        }
        let [confirmed, cancelled] = [0, 1].map(|way| ended[way].load(Ordering::Relaxed));
        println!("{confirmed} of {RACING} were confirmed, {cancelled} cancelled");
        let lapsed = RACING - confirmed - cancelled;
        assert!(confirmed > 0 && cancelled > 0 && lapsed > 0, "{confirmed}, {cancelled}");
        test.until_lapsed(lapsed).await;
        worker.stop().await.unwrap();
        let paid = format!(
            "select count(*) from coupon_payment join user_coupon on id = coupon_payment.claim_id \
             where status = 0 and version = 2 and issued_no is null and confirmed_at < {}",
            sql_time(deadline)
        );
        assert_eq!(test.number(&paid).await, confirmed, "who was confirmed has a usable coupon");
        assert_eq!(test.number("select count(*) from coupon_payment").await, confirmed);
        test.books_balance(1).await;
    }
}
