//! Tests the worker with a real MariaDB and Kafka: `./dev test`, or `./dev servers up` first.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod announce;
mod dealt;
mod harness;
mod holds;
mod lapse_faults;
mod lapses;
mod storms;
mod stuck;

use chrono::TimeDelta;
use harness::{Harness, SHARD};
use mysql_store::verify;
use topic::ExpiryWakeUp;

#[tokio::test(flavor = "multi_thread")]
async fn a_start_flips_what_is_due_without_any_message() {
    let mut test = Harness::new("start").await;
    let now = test.now().await;
    test.insert(1, now - TimeDelta::days(1)).await;
    test.insert(2, now + TimeDelta::days(40)).await;
    let worker = test.start();
    test.until_expired(1).await;
    worker.stop().await.unwrap();
    assert_eq!(test.counts().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_deadline_is_flipped_soon_after_it_and_never_before() {
    let mut test = Harness::new("lone deadline").await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    let mut late = Vec::new();
    for id in 1..=8 {
        let deadline = test.now().await + TimeDelta::milliseconds(400);
        test.insert(id, deadline).await;
        test.wake(SHARD, deadline).await;
        test.until_expired(id).await;
        late = test.lateness().await;
    }
    worker.stop().await.unwrap();
    assert!(late[0] >= TimeDelta::zero(), "{late:?}");
    // The best of them: a busy machine delays some, a worker that only polls is late each time.
    assert!(late[0] <= TimeDelta::milliseconds(250), "{late:?}");
    test.nothing_ended_wrongly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_wake_up_is_heeded_while_a_later_one_is_waited_for() {
    let mut test = Harness::new("earlier").await;
    let now = test.now().await;
    test.insert(1, now + TimeDelta::days(40)).await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    let deadline = test.now().await + TimeDelta::milliseconds(300);
    test.insert(2, deadline).await;
    test.wake(SHARD, deadline).await;
    test.until_expired(1).await;
    worker.stop().await.unwrap();
    assert_eq!(test.counts().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_in_one_second_is_drained_in_chunks_each_coupon_once() {
    let mut test = Harness::new("storm").await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    let deadline = test.now().await + TimeDelta::seconds(1);
    test.insert_many(1, 5_000, deadline).await;
    test.wake(SHARD, deadline).await;
    test.until_expired(5_000).await;
    worker.stop().await.unwrap();
    assert_eq!(test.counts().await, (0, 5_000));
    test.nothing_ended_wrongly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doubled_early_foreign_and_unreadable_wake_ups_do_no_harm() {
    let mut test = Harness::new("odd messages").await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    let now = test.now().await;
    let deadline = now + TimeDelta::milliseconds(600);
    test.insert(1, deadline).await;
    for early in [-1_000_000, 0, 100, 200] {
        test.wake(SHARD, now + TimeDelta::milliseconds(early)).await;
    }
    test.wake(200, now).await;
    test.send(0, b"{").await;
    let odd = ExpiryWakeUp { shard: SHARD, deadline_ms: i64::MAX };
    test.send(0, &serde_json::to_vec(&odd).unwrap()).await;
    test.wake(SHARD, deadline).await;
    test.wake(SHARD, deadline).await;
    test.until_expired(1).await;
    worker.stop().await.unwrap();
    test.nothing_ended_wrongly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_wake_up_led_to_is_found_by_the_sweep() {
    let mut test = Harness::new("sweep").await;
    let worker = test.start_with(|config| config.sweep_seconds = 1);
    worker.until_part_ready("partitions").await;
    let now = test.now().await;
    test.insert(1, now - TimeDelta::days(1)).await;
    test.until_expired(1).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_wake_ups_and_an_emptied_topic_are_made_good_by_a_start() {
    let mut test = Harness::new("emptied").await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    // Ends in weeks: it sets the known deadline of the shard, and the coupons with lost wake-ups
    // end before it.
    let far = test.now().await + TimeDelta::weeks(6);
    test.insert(1, far).await;
    test.wake(SHARD, far).await;
    let deadline = test.now().await + TimeDelta::milliseconds(300);
    for id in 2..=64 {
        test.insert_of(id, id % 64, deadline).await;
    }
    worker.kill().await;
    let worker = test.start_on_emptied_topics().await;
    test.until_expired(63).await;
    worker.stop().await.unwrap();
    assert_eq!(test.counts().await, (1, 63));
    test.nothing_ended_wrongly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_shards_and_the_one_that_stays_takes_over() {
    let mut test = Harness::new("two workers").await;
    let one = test.start();
    let other = test.start();
    one.until_part_ready("partitions").await;
    other.until_part_ready("partitions").await;
    let deadline = test.now().await + TimeDelta::milliseconds(300);
    for id in 1..=64 {
        test.insert_of(id, id % 64, deadline).await;
    }
    for shard in 0..64 {
        test.wake(shard, deadline).await;
    }
    test.until_expired(64).await;
    one.kill().await;
    let deadline = test.now().await + TimeDelta::milliseconds(300);
    for id in 65..=128 {
        test.insert_of(id, id % 64, deadline).await;
    }
    for shard in 0..64 {
        test.wake(shard, deadline).await;
    }
    test.until_expired(128).await;
    other.stop().await.unwrap();
    test.nothing_ended_wrongly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_far_off_flips_nothing_and_says_so() {
    let mut test = Harness::new("skew").await;
    let now = test.now().await;
    test.insert(1, now - TimeDelta::days(1)).await;
    for skew in [TimeDelta::days(1), -TimeDelta::days(1)] {
        let worker = test.start_at(now + skew);
        let why = worker.until_unready("clock", "ms ahead of MySQL's").await;
        assert!(why.contains("nothing is flipped"), "{why}");
        worker.until_part_ready("partitions").await;
        worker.stop().await.unwrap();
        assert_eq!(test.counts().await, (1, 0));
    }
}

mod full {
    use super::*;

    /// A change is in the binlog a moment before it is in the tables.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_wake_up_that_is_faster_than_its_coupon_is_not_lost() {
        let mut test = Harness::new("fast wake up").await;
        let now = test.now().await;
        test.insert(3, now).await;
        let worker = test.start();
        // The start has read the shard; from here on only wake-ups trigger a read.
        test.until_expired(1).await;
        let mut slow = test.insert_slowly(1, now).await;
        test.insert(2, now).await;
        test.wake(SHARD, now).await;
        // The wake-up was handled: the shard's index was read without the first coupon.
        test.until_expired(2).await;
        verify::execute(&mut slow, "commit").await.unwrap();
        test.until_expired(3).await;
        worker.stop().await.unwrap();
        test.nothing_ended_wrongly().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn workers_that_come_and_go_while_deadlines_pass_end_each_coupon_once() {
        let mut test = Harness::new("come and go").await;
        let mut workers = vec![test.start()];
        workers[0].until_part_ready("partitions").await;
        let now = test.now().await;
        for id in 1..=640 {
            let deadline = now + TimeDelta::milliseconds(5 * id);
            test.insert_of(id, id % 64, deadline).await;
            test.wake(u8::try_from(id % 64).unwrap(), deadline).await;
        }
        for round in 0..4 {
            let fresh = test.start();
            fresh.until_part_ready("partitions").await;
            let old = workers.remove(0);
            // Half of the workers have no time to give up their shards.
            if round % 2 == 0 {
                old.kill().await;
            } else {
                old.stop().await.unwrap();
            }
            workers.push(fresh);
        }
        test.until_expired(640).await;
        for worker in workers {
            worker.stop().await.unwrap();
        }
        test.nothing_ended_wrongly().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_dead_server_at_the_start_is_a_sentence_not_a_hang() {
        let test = Harness::new("dead server").await;
        let mysql = |config: &mut expiry_worker::Config| {
            config.database_url = "mysql://u:p@127.0.0.1:1/d".parse().unwrap();
        };
        let error = test.start_with(mysql).failed().await;
        assert!(error.contains("DATABASE_URL"), "{error}");
        let kafka = |config: &mut expiry_worker::Config| {
            "127.0.0.1:1".clone_into(&mut config.kafka_brokers);
        };
        let error = test.start_with(kafka).failed().await;
        assert!(error.contains("no Kafka broker answered at 127.0.0.1:1"), "{error}");
    }
}
