//! A row that another session has locked, or that MySQL refuses, holds up nothing but itself.

use chrono::TimeDelta;
use coupon::ReturnedStock;
use mysql_store::verify;

use crate::harness::Harness;

/// More than a hundred returns, each of which would wait for the stock row in its turn.
const MANY: i64 = 4_000;

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_template_whose_stock_row_is_locked_holds_up_no_others_lapses() {
        let mut test = Harness::new("stock row locked").await;
        for template in [11, 12] {
            test.template(template, ReturnedStock::Resell).await;
        }
        let now = test.now().await;
        test.hold_in_shard(12, 1..MANY + 1, now - TimeDelta::seconds(30)).await;
        test.hold_in_shard(11, MANY + 1..MANY + 401, now - TimeDelta::seconds(1)).await;
        let mut console = test.another().await;
        let lock = "begin; select stock from template_stock where template_id = 12 for update";
        verify::execute(&mut console, lock).await.unwrap();

        let worker = test.start();
        test.until_lapsed(400).await;
        test.books_balance(11).await;
        verify::execute(&mut console, "rollback").await.unwrap();
        test.until_lapsed(400 + MANY).await;
        test.books_balance(12).await;
        worker.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn coupons_that_are_locked_or_refused_hold_up_no_others_expiry() {
        let mut test = Harness::new("coupons stuck").await;
        let now = test.now().await;
        test.insert_many(1, 600, now - TimeDelta::seconds(30)).await;
        test.insert_many(601, 600, now - TimeDelta::seconds(1)).await;
        // No flip can raise this version.
        let last = format!("update user_coupon set version = {} where id = 301", i64::MAX);
        let unguarded = format!("drop trigger user_coupon_version; {last}");
        verify::execute(&mut test.connection, &unguarded).await.unwrap();
        let mut console = test.another().await;
        let lock = "begin; select id from user_coupon where id = 5 for update";
        verify::execute(&mut console, lock).await.unwrap();

        let worker = test.start();
        test.until_expired(1_198).await;
        // A coupon that comes due now does not wait until the bad ones are tried again.
        let deadline = test.now().await + TimeDelta::milliseconds(200);
        test.insert(1_201, deadline).await;
        test.wake(crate::harness::SHARD, deadline).await;
        test.until_expired(1_199).await;
        verify::execute(&mut console, "rollback").await.unwrap();
        test.until_expired(1_200).await;
        assert_eq!(test.counts().await.0, 1, "the refused one");
        worker.stop().await.unwrap();
    }

    /// More coupons than a flip takes, in the shard with the earliest deadline. The drain must end with the last read.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_shard_with_many_locked_coupons_holds_up_no_other_shard() {
        let mut test = Harness::new("many locked").await;
        let now = test.now().await;
        test.insert_many(1, 1_200, now - TimeDelta::seconds(30)).await;
        test.insert_many(1_201, 300, now - TimeDelta::seconds(20)).await;
        let mut console = test.another().await;
        let lock = "begin; select id from user_coupon where id <= 1200 for update";
        verify::execute(&mut console, lock).await.unwrap();
        let other = i64::from(crate::harness::SHARD) + 1;
        for id in 2_001..=2_003 {
            test.insert_of(id, other, now - TimeDelta::seconds(1)).await;
        }
        let worker = test.start();
        test.until_expired(303).await;
        let deadline = test.now().await + TimeDelta::milliseconds(200);
        test.insert_of(2_004, other, deadline).await;
        test.wake(crate::harness::SHARD + 1, deadline).await;
        test.until_expired(304).await;
        verify::execute(&mut console, "rollback").await.unwrap();
        test.until_expired(1_504).await;
        worker.stop().await.unwrap();
    }
}
