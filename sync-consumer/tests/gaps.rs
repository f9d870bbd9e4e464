//! Messages that the topic deleted before they were read.

use coupon::UserId;

use crate::harness::{Harness, row, used};

const USER: UserId = UserId(70);
const OTHER: UserId = UserId(71);

#[tokio::test(flavor = "multi_thread")]
async fn messages_the_topic_forgot_cost_every_view_before_a_later_one_is_applied() {
    let test = Harness::new("gap").await;
    test.warm(USER).await;
    test.warm(OTHER).await;
    let consumer = test.start();
    test.send(&row(1, 70)).await;
    test.send(&row(2, 71)).await;
    test.caught_up().await;
    assert_eq!(test.listed(USER).await, ["1_1"]);
    consumer.stop().await.unwrap();

    // No consumer ever reads this use.
    test.send(&used(1, 70)).await;
    test.forget_messages().await;
    let before = testkit::counted("sync_consumer_gaps_total", "");
    let consumer = test.start();
    test.send(&row(3, 70)).await;
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), [], "a trusted view would show the used coupon");
    assert!(testkit::counted("sync_consumer_gaps_total", "") > before);
    assert!(testkit::counted("sync_consumer_dropped_views_total", "gap") >= 2);

    // The consumer continues, and so do rebuilt views.
    test.warm(USER).await;
    test.send(&row(4, 70)).await;
    test.caught_up().await;
    assert_eq!(test.listed(USER).await, ["1_4"]);
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_the_topic_forgot_cost_every_view_although_none_has_come_since() {
    let test = Harness::new("quiet gap").await;
    test.warm(USER).await;
    let consumer = test.start();
    test.send(&row(1, 70)).await;
    test.caught_up().await;
    consumer.stop().await.unwrap();
    test.send(&used(1, 70)).await;
    test.forget_messages().await;
    let consumer = test.start();
    test.until_no_view().await;
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_offsets_on_a_topic_that_has_forgotten_trusts_no_view() {
    let test = Harness::new("new group").await;
    test.warm(USER).await;
    test.send(&row(1, 70)).await;
    test.forget_messages().await;
    let consumer = test.start();
    test.send(&row(2, 70)).await;
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), []);
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_comes_again_drops_no_view() {
    let test = Harness::new("no gap").await;
    test.warm(USER).await;
    test.warm(OTHER).await;
    for id in 1..=3 {
        let consumer = test.start();
        test.send(&row(2 * id, 70)).await;
        test.send(&row(2 * id + 1, 71)).await;
        test.caught_up().await;
        consumer.stop().await.unwrap();
    }
    assert_eq!(test.listed(USER).await, ["1_2", "1_4", "1_6"]);
    assert_eq!(test.listed(OTHER).await, ["1_3", "1_5", "1_7"]);
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_that_is_tried_again_drops_the_views_for_its_gap_once() {
        let test = Harness::new("gap tried again").await;
        test.warm(USER).await;
        test.send_behind_a_gap(&row(1, 71), b"{").await;
        let brokers = &test.scope.endpoints.kafka_brokers;
        topic::verify::remove(brokers, &test.names.dead_letter()).await.unwrap();
        let consumer = test.start();
        consumer.until_unready("stores", "dead letter").await;
        assert_eq!(test.view.users().await.unwrap(), []);
        // Built from MySQL after the drop, so it lacks nothing.
        test.warm(USER).await;
        test.ensure_topics().await;
        test.caught_up().await;
        assert_eq!(test.dead_letters().await.len(), 1);
        assert_eq!(test.view.users().await.unwrap(), [USER]);
        consumer.stop().await.unwrap();
    }
}
