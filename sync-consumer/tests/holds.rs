//! Held coupons: their wake-ups, and that they are no members of the list before they are confirmed.

use coupon::UserId;
use topic::{ExpiryWakeUp, UserCouponRow};

use crate::harness::{Harness, held, returned, row};

const USER: UserId = UserId(70);

/// Shard of [`USER`].
const SHARD: u8 = 6;

/// A confirmation, which also moves the deadline.
fn confirmed(id: i64, valid_until: i64) -> UserCouponRow {
    UserCouponRow { version: 2, valid_until, ..row(id, USER.0) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coupon_is_listed_once_it_is_confirmed_and_never_while_held_or_after_it_came_back() {
    let test = Harness::new("held members").await;
    test.warm(USER).await;
    let consumer = test.start();
    let until = 4_000_000_000_000;
    for id in 1..=4 {
        test.send(&held(id, USER.0, until)).await;
    }
    test.caught_up().await;
    assert!(test.listed(USER).await.is_empty(), "all are held");
    // Held coupons are known too, so that an older version adds none later.
    let entries = test.view.contents(USER).await.unwrap().coupons;
    assert_eq!(entries["1"], "1|4");
    let ends = [confirmed(1, until + 1), returned(2, USER.0, 5), returned(3, USER.0, 3)];
    test.send_all(&ends).await;
    test.caught_up().await;
    assert_eq!(test.listed(USER).await, ["1_1"]);
    let entries = test.view.contents(USER).await.unwrap().coupons;
    assert!(entries["1"].ends_with(&format!("|{}", until + 1)), "{entries:?}");
    assert_eq!([&entries["2"], &entries["3"], &entries["4"]], ["2|5", "2|3", "1|4"]);

    // Doubled, and the old versions once more.
    let before = test.dump().await;
    test.send_all(&ends).await;
    for id in 1..=4 {
        test.send(&held(id, USER.0, until)).await;
    }
    test.caught_up().await;
    assert_eq!(test.dump().await, before);
    // A confirmed coupon that the shop takes back leaves the list.
    test.send(&UserCouponRow { version: 3, ..returned(1, USER.0, 3) }).await;
    test.caught_up().await;
    assert!(test.listed(USER).await.is_empty());
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_hold_wakes_the_worker_and_after_a_confirmation_the_end_of_the_validity() {
    let test = Harness::new("held wake ups").await;
    let consumer = test.start();
    test.send(&held(1, USER.0, 9_000_100)).await;
    test.caught_up().await;
    let wake_up = |deadline_ms| (i32::from(SHARD % 4), ExpiryWakeUp { shard: SHARD, deadline_ms });
    assert_eq!(test.wake_ups().await, [wake_up(9_000_100)]);
    test.send(&confirmed(1, 9_500_200)).await;
    test.send(&returned(2, USER.0, 5)).await;
    test.caught_up().await;
    assert_eq!(test.wake_ups().await, [wake_up(9_000_100), wake_up(9_500_200)]);
    consumer.stop().await.unwrap();
}
