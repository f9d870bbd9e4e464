//! The consumer against a real Kafka, Redis and MariaDB: `./dev test`, or `./dev servers up` first.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod harness;
mod movements;

use coupon::UserId;
use harness::{Harness, row, used};
use topic::ExpiryWakeUp;

const USER: UserId = UserId(70);

#[tokio::test(flavor = "multi_thread")]
async fn changes_reach_warm_views_and_leave_cold_ones_cold() {
    let test = Harness::new("changes").await;
    test.warm(USER).await;
    let consumer = test.start();
    test.send(&row(1, 70)).await;
    test.send(&row(2, 70)).await;
    test.send(&used(1, 70)).await;
    test.send(&row(3, 71)).await;
    test.caught_up().await;
    assert_eq!(test.listed(USER).await, ["1_2"]);
    let tombstone = &test.view.contents(USER).await.unwrap().coupons["1"];
    assert_eq!(tombstone, "2|1");
    assert_eq!(test.view.users().await.unwrap(), [USER], "the cold view got no keys");
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_topic_again_duplicated_and_shuffled_leaves_the_view_as_it_is() {
    let test = Harness::new("redelivery").await;
    let users = [UserId(70), UserId(71), UserId(72)];
    for user in users {
        test.warm(user).await;
    }
    let mut rows = Vec::new();
    for id in 1..=90 {
        rows.push(row(id, 70 + id % 3));
        if id % 4 == 0 {
            rows.push(used(id, 70 + id % 3));
        }
    }
    let consumer = test.start();
    test.send_all(&rows).await;
    test.caught_up().await;
    let mut before = Vec::new();
    for user in users {
        before.push(test.view.contents(user).await.unwrap());
    }
    assert_eq!(before.iter().map(|view| view.list.len()).sum::<usize>(), 90 - 22);

    test.send_all(&rows).await;
    let mut again = [rows.clone(), rows].concat();
    fastrand::seed(7);
    fastrand::shuffle(&mut again);
    test.send_all(&again).await;
    test.caught_up().await;
    for (user, before) in users.into_iter().zip(before) {
        assert_eq!(test.view.contents(user).await.unwrap(), before);
    }
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_ups_are_one_for_each_shard_and_second_on_the_shards_partition() {
    let test = Harness::new("wake ups").await;
    let ending = |id, user, valid_until| topic::UserCouponRow { valid_until, ..row(id, user) };
    // Sent before the consumer starts, so that they come in one batch for each partition.
    test.send(&ending(1, 70, 9_000_900)).await;
    test.send(&ending(2, 70, 9_000_100)).await;
    test.send(&ending(3, 70, 9_001_000)).await;
    test.send(&topic::UserCouponRow { status: 1, ..ending(4, 70, 5_000_000) }).await;
    let consumer = test.start();
    test.caught_up().await;
    let wake_ups = test.wake_ups().await;
    let shard = 70 % 64;
    let expected = [9_000_100, 9_001_000]
        .map(|deadline_ms| (i32::from(shard % 4), ExpiryWakeUp { shard, deadline_ms }));
    assert_eq!(wake_ups, expected);
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_message_is_put_aside_its_users_view_dropped_and_the_rest_goes_on() {
    let test = Harness::new("undecodable").await;
    let other = UserId(71);
    test.warm(USER).await;
    test.warm(other).await;
    let consumer = test.start();
    test.send(&row(1, 70)).await;
    test.send_raw("70", b"{\"after\":").await;
    test.send_raw("nobody", b"").await;
    test.send(&row(2, 71)).await;
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), [other]);
    assert_eq!(test.listed(other).await, ["1_2"]);
    let letters = test.dead_letters().await;
    assert_eq!(letters.len(), 2);
    let cut = letters.iter().find(|letter| letter.key == b"70").unwrap();
    assert_eq!(cut.payload.as_deref(), Some(&b"{\"after\":"[..]));
    assert_eq!(cut.header("source-topic").unwrap(), test.names.user_coupon().as_bytes());
    assert!(cut.header("source-offset").is_some() && cut.header("reason").is_some());
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_wrong_type_costs_its_user_the_view_and_nobody_else_anything() {
    let test = Harness::new("wrong type").await;
    let other = UserId(71);
    test.warm(USER).await;
    test.warm(other).await;
    test.spoil(USER).await;
    let consumer = test.start();
    test.send(&row(1, 70)).await;
    test.send(&row(2, 71)).await;
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), [other]);
    assert_eq!(test.listed(other).await, ["1_2"]);
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_dropped_in_the_middle_loses_nothing() {
    let test = Harness::new("dropped").await;
    test.warm(USER).await;
    for round in 0..3 {
        let rows: Vec<_> = (1..=100).map(|id| row(round * 100 + id, 70)).collect();
        let consumer = test.start();
        test.send_all(&rows).await;
        consumer.kill().await;
    }
    let consumer = test.start();
    test.caught_up().await;
    assert_eq!(test.listed(USER).await.len(), 300);
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_or_a_dead_server_is_a_sentence_not_a_hang() {
    let test = Harness::new("dead server").await;
    let error = test.start_with(|config| "127.0.0.1:1".clone_into(&mut config.kafka_brokers)).await;
    assert!(error.contains("no Kafka broker answered at 127.0.0.1:1"), "{error}");
    let redis = |config: &mut sync_consumer::Config| {
        config.view_redis_url = "redis://127.0.0.1:1".parse().unwrap();
    };
    let error = test.start_with(redis).await;
    assert!(error.contains("VIEW_REDIS_URL"), "{error}");
    let unfit = |config: &mut sync_consumer::Config| {
        // The view's evicts.
        config.gate_redis_url = config.view_redis_url.clone();
    };
    let error = test.start_with(unfit).await;
    assert!(error.contains("GATE_REDIS_URL") && error.contains("noeviction"), "{error}");
}
