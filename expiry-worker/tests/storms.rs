//! One merchant's storm does not delay another merchant's holds.

use chrono::TimeDelta;
use coupon::ReturnedStock;
use runtime::FailPoints;

use crate::harness::{Harness, SHARD};

/// Coupons of each shard in a storm: several flips, however large they are.
const OF_EACH: i64 = 1_500;

/// The hold of the buyer who did not pay.
const HOLD: i64 = 100_000;

impl Harness {
    /// Coupons that expired after the lone hold had lapsed, by the times in their rows.
    async fn expired_after_the_hold(&mut self, of: &str) -> i64 {
        let sql = format!(
            "select count(*) from user_coupon where status = 2 and {of} and changed_at > \
             (select lapsed.changed_at from user_coupon as lapsed where lapsed.id = {HOLD} \
             and lapsed.status = 5)"
        );
        self.number(&sql).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_ends_while_its_shard_is_drained_waits_for_no_more_than_a_flip() {
    let mut test = Harness::new("storm in one shard").await;
    test.template(11, ReturnedStock::Resell).await;
    let over = test.now().await - TimeDelta::seconds(30);
    test.insert_many(1, 2 * OF_EACH, over).await;
    test.hold_in_shard(11, HOLD - 1..HOLD, over).await;
    let points = FailPoints::default();
    let mut held = points.hold("lapse.before_return");
    let worker = test.start_with(|config| config.fail_points = points);
    // The shard was read, and none of its coupons has ended.
    held.reached(1).await;
    assert_eq!((test.counts().await.1, test.lapsed().await), (0, 0));
    test.hold_in_shard(11, HOLD..HOLD + 1, over).await;
    held.let_go();
    test.until_lapsed(2).await;
    test.until_expired(2 * OF_EACH).await;
    worker.stop().await.unwrap();
    let after = test.expired_after_the_hold("true").await;
    assert!(after > OF_EACH / 2, "{after}");
    test.books_balance(11).await;
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hold_in_the_last_shard_of_a_storm_lapses_before_the_other_shards_are_drained() {
        let mut test = Harness::new("storm in all shards").await;
        test.template(11, ReturnedStock::Resell).await;
        let now = test.now().await;
        let last = i64::from(SHARD);
        for shard in 0..=last {
            let first = 1 + shard * OF_EACH;
            test.insert_many_of(shard, first, OF_EACH, now - TimeDelta::seconds(30)).await;
        }
        test.hold_in_shard(11, HOLD..HOLD + 1, now - TimeDelta::seconds(1)).await;
        let worker = test.start();
        test.until_lapsed(1).await;
        test.until_expired((last + 1) * OF_EACH).await;
        worker.stop().await.unwrap();
        let after = test.expired_after_the_hold(&format!("expiry_shard <> {last}")).await;
        assert!(after > last * OF_EACH / 2, "{after} of the other shards");
        test.books_balance(11).await;
    }
}
