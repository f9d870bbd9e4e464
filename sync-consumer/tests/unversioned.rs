//! A coupon changes without a newer version, because the trigger that forbids it is missing.

use coupon::UserId;
use topic::{Event, Op, Source, UserCouponRow};

use crate::harness::{Harness, row};

/// By its version the change is not new, so the view would keep showing the old state.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_keeps_its_version_costs_its_user_the_view_and_nobody_else_anything() {
    let test = Harness::new("unversioned").await;
    let user = UserId(70);
    let other = UserId(71);
    test.warm(user).await;
    test.warm(other).await;
    let consumer = test.start();
    test.send(&row(1, 70)).await;
    test.send(&row(2, 71)).await;
    test.caught_up().await;
    assert_eq!(test.listed(user).await, ["1_1"]);

    let before = row(1, 70);
    let used = UserCouponRow { status: 1, ..before.clone() };
    let source = Source::default();
    let event = Event { before: Some(before), after: Some(used), op: Op::Update, source, ts_ms: 1 };
    test.send_raw("70", &serde_json::to_vec(&event).unwrap()).await;
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), [other]);
    assert_eq!(test.listed(other).await, ["1_2"]);
    assert!(testkit::counted("sync_consumer_dropped_views_total", "unversioned") >= 1);
    assert_eq!(test.dead_letters().await.len(), 0, "it can be read");
    consumer.stop().await.unwrap();
}
