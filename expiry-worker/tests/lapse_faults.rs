//! Workers that die in a return, and returns that cannot take place.

use chrono::TimeDelta;
use coupon::ReturnedStock;
use mysql_store::verify;
use runtime::FailPoints;

use crate::harness::Harness;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_at_any_step_of_a_return_loses_and_doubles_nothing() {
    let mut test = Harness::new("lapse kills").await;
    test.template(1, ReturnedStock::Resell).await;
    let steps = ["lapse.before_return", "lapse.before_commit", "lapse.after_commit"];
    for (round, step) in (0..).zip(steps) {
        let points = FailPoints::default();
        let first = round * 300;
        let mut held = points.hold(step);
        let deadline = test.now().await - TimeDelta::milliseconds(1);
        test.hold_in_shard(1, first + 1..first + 301, deadline).await;
        let worker = test.start_with(|config| config.fail_points = points.clone());
        held.reached(1).await;
        let is_done = step == "lapse.after_commit";
        assert_eq!(test.lapsed().await > first, is_done, "{step}");
        worker.kill().await;
        held.let_go();
        test.books_balance(1).await;
        let worker = test.start();
        test.until_lapsed(first + 300).await;
        worker.stop().await.unwrap();
        test.books_balance(1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_return_that_fails_is_made_again_by_the_same_worker() {
    let mut test = Harness::new("lapse fails").await;
    test.template(1, ReturnedStock::Resell).await;
    let points = FailPoints::default();
    for step in ["lapse.before_return", "lapse.before_commit", "lapse.after_commit"] {
        points.fail(step);
    }
    let deadline = test.now().await - TimeDelta::milliseconds(1);
    test.hold_in_shard(1, 1..400, deadline).await;
    let worker = test.start_with(|config| config.fail_points = points.clone());
    test.until_lapsed(399).await;
    worker.stop().await.unwrap();
    test.books_balance(1).await;
}

/// All in one shard: those that cannot lapse have the earliest deadlines.
#[tokio::test(flavor = "multi_thread")]
async fn bad_templates_and_a_locked_coupon_hold_up_no_other_and_lapse_once_they_can() {
    let mut test = Harness::new("lapse put off").await;
    for template in [11, 12, 13] {
        test.template(template, ReturnedStock::Resell).await;
    }
    let now = test.now().await;
    let ago = |seconds| now - TimeDelta::seconds(seconds);
    test.hold_in_shard(12, 1..301, ago(30)).await;
    test.hold_in_shard(19, 301..501, ago(20)).await;
    test.hold_in_shard(13, 501..505, ago(10)).await;
    test.hold_in_shard(11, 505..905, ago(5)).await;
    test.insert(905, ago(1)).await;
    let unreadable = "update coupon_template set returned_stock = 7, version = version + 1 \
                      where id = 12";
    verify::execute(&mut test.connection, unreadable).await.unwrap();
    let mut shop = test.another().await;
    let lock = "begin; update user_coupon set order_ref = 'x', version = 2 where id = 501";
    verify::execute(&mut shop, lock).await.unwrap();

    let worker = test.start();
    test.until_lapsed(403).await;
    test.until_expired(1).await;
    test.books_balance(11).await;
    // A hold that comes due now does not wait until the bad ones are tried again.
    let deadline = test.now().await + TimeDelta::milliseconds(200);
    test.hold_in_shard(11, 906..907, deadline).await;
    test.wake(crate::harness::SHARD, deadline).await;
    test.until_lapsed(404).await;

    verify::execute(&mut shop, "rollback").await.unwrap();
    let readable = "update coupon_template set returned_stock = 0, version = version + 1 \
                    where id = 12";
    verify::execute(&mut test.connection, readable).await.unwrap();
    test.until_lapsed(705).await;
    for template in [11, 12, 13] {
        test.books_balance(template).await;
    }
    assert_eq!(test.number("select count(*) from user_coupon where status = 4").await, 200);
    worker.stop().await.unwrap();
}
