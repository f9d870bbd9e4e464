//! Tests the consumer with a real Kafka, Redis and MariaDB: `./dev test`, or `./dev servers up`
//! first.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod gaps;
mod harness;
mod holds;
mod movements;
mod poison;
mod returns;
mod unversioned;

use coupon::UserId;
use devstack::{OwnBroker, OwnRedis};
use harness::{Harness, row, used};
use testkit::{Proxy, STATE_MAX, until};
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
    consumer.stop().await.unwrap();
    let before = test.dump().await;
    let mut listed = 0;
    for user in users {
        listed += test.listed(user).await.len();
    }
    assert_eq!((before.len(), listed), (6, 90 - 22));

    // All are consumed again from the start, in topic order.
    test.rewind().await;
    let consumer = test.start();
    test.caught_up().await;
    assert_eq!(test.dump().await, before);
    // Duplicated and shuffled.
    test.send_all(&rows).await;
    let mut again = [rows.clone(), rows].concat();
    let seed = fastrand::u64(..);
    println!("shuffled by seed {seed}");
    fastrand::Rng::with_seed(seed).shuffle(&mut again);
    test.send_all(&again).await;
    test.caught_up().await;
    assert_eq!(test.dump().await, before);
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_ups_are_one_for_each_shard_and_second_on_the_shards_partition() {
    let test = Harness::new("wake ups").await;
    let ending = |id, user, valid_until| topic::UserCouponRow { valid_until, ..row(id, user) };
    // Sent before the consumer starts, so that each partition's messages come in one batch.
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

/// A coupon with a near deadline ends on time, whatever the view's Redis does.
#[tokio::test(flavor = "multi_thread")]
async fn a_near_deadline_is_announced_while_the_view_is_not_written() {
    let test = Harness::new("near").await;
    test.warm(USER).await;
    let view = &test.scope.endpoints.view_redis_url;
    let proxy = Proxy::before(view).await;
    let mut applied = proxy.hold_request(b"EVALSHA");
    let consumer = test.start_changed(|config| {
        config.view_redis_url = proxy.instead_of(view).parse().unwrap();
    });
    // Long past, so it is as near as possible.
    test.send(&topic::UserCouponRow { valid_until: 5_000, ..row(1, 70) }).await;
    tokio::time::timeout(STATE_MAX, applied.reached()).await.unwrap();
    until(async || test.wake_ups().await.len(), |sent| *sent == 1).await;
    applied.go_on();
    test.caught_up().await;
    assert_eq!(test.wake_ups().await.len(), 1, "and not once more");
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_lost_between_write_and_read_back_is_written_again_and_counted() {
    let test = Harness::new("read back").await;
    test.warm(USER).await;
    let view = &test.scope.endpoints.view_redis_url;
    let proxy = Proxy::before(view).await;
    let mut read_back = proxy.hold_request(b"ZMSCORE");
    let consumer = test.start_changed(|config| {
        config.view_redis_url = proxy.instead_of(view).parse().unwrap();
    });
    let before = testkit::counted("sync_consumer_read_back_repairs_total", "");
    test.send(&row(1, 70)).await;
    tokio::time::timeout(STATE_MAX, read_back.reached()).await.unwrap();
    assert_eq!(test.listed(USER).await, ["1_1"]);
    test.lose_member(USER, "1_1").await;
    read_back.go_on();
    test.caught_up().await;
    assert_eq!(test.listed(USER).await, ["1_1"]);
    assert!(testkit::counted("sync_consumer_read_back_repairs_total", "") > before);
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

mod full {
    use super::*;

    /// Every worker hears the old partitions, but only the owner of a shard goes on hearing them after the next deal.
    #[tokio::test(flavor = "multi_thread")]
    async fn wake_ups_go_to_partitions_that_were_added_under_a_running_consumer() {
        let test = Harness::new("added partitions").await;
        let consumer = test.start();
        consumer.until_ready().await;
        let brokers = &test.scope.endpoints.kafka_brokers;
        let topic = test.names.expiry();
        topic::verify::raise_partitions(brokers, &topic, 8).await.unwrap();
        let shard = 70 % 64;
        let mut id = 0;
        let sent_to = async || {
            id += 1;
            test.send(&row(id, 70)).await;
            test.wake_ups().await.iter().map(|(partition, _)| *partition).max()
        };
        until(sent_to, |last| *last == Some(shard % 8)).await;
        test.caught_up().await;
        consumer.stop().await.unwrap();
    }

    /// A farther deadline does not wait for an unreachable view Redis either.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_deadline_is_announced_while_the_view_is_away() {
        let test = Harness::new("view away").await;
        let mut server = OwnRedis::view("consumer-view-away", &[]).await.unwrap();
        let consumer = test.start_changed(|config| {
            config.view_redis_url = server.url().parse().unwrap();
        });
        consumer.until_ready().await;
        server.server.kill().unwrap();
        test.send(&row(1, 70)).await;
        until(async || test.wake_ups().await, |woken| !woken.is_empty()).await;
        consumer.until_unready("stores", "").await;
        // The previous batch is not done, and these come after it.
        for user in 71..=73 {
            test.send(&row(user, user)).await;
            let woken = usize::try_from(user - 69).unwrap();
            until(async || test.wake_ups().await.len(), |sent| *sent == woken).await;
        }
        assert_eq!(test.consumed().await, 0, "no view has any of them");
        server.server.start().await.unwrap();
        test.caught_up().await;
        consumer.stop().await.unwrap();
    }

    /// A restart during that outage changes nothing.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_consumer_that_starts_while_the_view_is_away_announces_deadlines_and_waits_for_it() {
        let test = Harness::new("view away at start").await;
        let mut server = OwnRedis::view("consumer-starts-without-view", &[]).await.unwrap();
        server.server.kill().unwrap();
        let start = || {
            test.start_changed(|config| {
                config.view_redis_url = server.url().parse().unwrap();
            })
        };
        let consumer = start();
        test.send(&row(1, 70)).await;
        let why = consumer.until_unready("stores", "VIEW_REDIS_URL").await;
        assert!(why.contains("cannot be reached"), "{why}");
        until(async || test.wake_ups().await.len(), |sent| *sent == 1).await;
        consumer.until_part_ready("movements").await;
        consumer.stop().await.unwrap();
        let consumer = start();
        consumer.until_unready("stores", "VIEW_REDIS_URL").await;
        assert_eq!(test.consumed().await, 0, "no view has it");
        server.server.start().await.unwrap();
        consumer.until_ready().await;
        test.caught_up().await;
        consumer.stop().await.unwrap();
    }

    /// A message that can neither be read nor put aside delays the views, but no deadline.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_deadline_is_announced_while_no_topic_takes_dead_letters() {
        let test = Harness::new("no letters").await;
        let brokers = &test.scope.endpoints.kafka_brokers;
        let letters = test.names.dead_letter();
        let consumer = test.start();
        consumer.until_ready().await;
        topic::verify::remove(brokers, &letters).await.unwrap();
        test.send_raw("70", b"{").await;
        consumer.until_unready("stores", "dead letter").await;
        test.send(&row(1, 70)).await;
        until(async || test.wake_ups().await.len(), |sent| *sent == 1).await;
        test.ensure_topics().await;
        test.caught_up().await;
        assert_eq!(test.dead_letters().await.len(), 1);
        consumer.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_consumer_whose_partitions_are_lost_says_so_and_knows_no_lag_until_it_has_some_again()
    {
        let mut broker = OwnBroker::start("consumer-broker").await.unwrap();
        let test = Harness::on_broker("broker away", &broker.server.address().to_string()).await;
        test.warm(USER).await;
        let consumer = test.start();
        consumer.until_ready().await;
        until(async || test.lag(), |lag| *lag == Some(0.0)).await;
        broker.server.kill().unwrap();
        for part in ["partitions", "wake_ups"] {
            consumer.until_unready(part, "were lost").await;
        }
        until(async || test.lag(), Option::is_none).await;
        broker.server.start().await.unwrap();
        consumer.until_ready().await;
        test.send(&row(1, 70)).await;
        test.caught_up().await;
        assert_eq!(test.listed(USER).await, ["1_1"]);
        until(async || test.lag(), |lag| *lag == Some(0.0)).await;
        consumer.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_that_cannot_be_read_holds_up_its_partition_alone_and_each_loop_says_which() {
        let broker = OwnBroker::start("damaged-consumer").await.unwrap();
        let brokers = broker.brokers();
        let test = Harness::on_broker("damaged changes", &brokers).await;
        let changes = test.names.user_coupon();
        let movements = test.names.stock_movement();
        // Long enough to be compressed: its damage shows.
        let junk = [b'x'; 2_000];
        for topic in [&changes, &movements] {
            test.send_to(topic, "70", &junk).await;
        }
        let held = async |topic: &str| {
            let spans = topic::topic_offsets(&brokers, topic).await.unwrap();
            spans.iter().find(|span| span.end == 1).unwrap().partition
        };
        let of_changes = held(&changes).await;
        let of_movements = held(&movements).await;
        broker.spoil(&changes, of_changes, 0).unwrap();
        broker.spoil(&movements, of_movements, 0).unwrap();
        let elsewhere = (71..).map(UserId);
        test.warm(USER).await;
        let consumer = test.start();
        let named = format!("partition {of_changes} of topic {changes} is held up at offset 0");
        consumer.until_unready("partitions", &named).await;
        consumer.until_unready("wake_ups", &named).await;
        let named = format!("partition {of_movements} of topic {movements} is held up at offset 0");
        consumer.until_unready("movements", &named).await;
        for user in elsewhere.take(8) {
            test.warm(user).await;
            test.send(&row(1, user.0)).await;
        }
        let shown = async || {
            let mut shown = 0;
            for user in 71..79 {
                shown += usize::from(test.listed(UserId(user)).await == ["1_1"]);
            }
            shown
        };
        until(shown, |shown| *shown > 0).await;
        broker.spoil(&changes, of_changes, 0).unwrap();
        broker.spoil(&movements, of_movements, 0).unwrap();
        test.caught_up().await;
        assert_eq!((shown().await, test.dead_letters().await.len()), (8, 1));
        consumer.until_ready().await;
        consumer.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_view_that_does_not_evict_is_refused_at_the_start_and_reported_later() {
        let test = Harness::new("no eviction").await;
        let server = OwnRedis::view("consumer-no-eviction", &[]).await.unwrap();
        let consumer = test.start_changed(|config| {
            config.view_redis_url = server.url().parse().unwrap();
        });
        consumer.until_ready().await;
        let set = async |policy: &str| {
            let client = redis::Client::open(server.url()).unwrap();
            let mut redis = client.get_multiplexed_async_connection().await.unwrap();
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("maxmemory-policy").arg(policy);
            set.exec_async(&mut redis).await.unwrap();
        };
        set("noeviction").await;
        consumer.until_unready("view", "allkeys-lru").await;
        let error = test.start_with(|config| config.view_redis_url = server.url().parse().unwrap());
        let error = error.await;
        assert!(error.contains("VIEW_REDIS_URL") && error.contains("allkeys-lru"), "{error}");
        set("volatile-lru").await;
        consumer.until_part_ready("view").await;
        consumer.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_missing_topic_or_a_dead_server_is_a_sentence_not_a_hang() {
        let test = Harness::new("dead server").await;
        let error =
            test.start_with(|config| "127.0.0.1:1".clone_into(&mut config.kafka_brokers)).await;
        assert!(error.contains("no Kafka broker answered at 127.0.0.1:1"), "{error}");
        let redis = |config: &mut sync_consumer::Config| {
            let url =
                config.view_redis_url.expose().replacen("redis://", "redis://nobody:wrong@", 1);
            config.view_redis_url = url.parse().unwrap();
        };
        let error = test.start_with(redis).await;
        assert!(error.contains("VIEW_REDIS_URL"), "{error}");
        let unfit = |config: &mut sync_consumer::Config| {
            // The view's Redis evicts.
            config.gate_redis_url = config.view_redis_url.clone();
        };
        let error = test.start_with(unfit).await;
        assert!(error.contains("GATE_REDIS_URL") && error.contains("noeviction"), "{error}");
    }
}
