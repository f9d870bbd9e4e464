//! Shards whose owner does not drain them, and an unreachable broker.

use chrono::TimeDelta;
use coupon::{EXPIRY_SHARDS, expiry_shards};
use devstack::OwnBroker;
use runtime::FailPoints;

use crate::harness::{Harness, PARTITIONS, SHARD};

/// How late a coupon may end that could not be announced because the brokers have just gone: two seconds until the next
/// request to them, three in which none answers, one until the next look at the shards, and two for a busy machine.
const UNANNOUNCED_LATE_MAX: TimeDelta = TimeDelta::seconds(8);

/// Time for the group to deal once more.
const DEAL: TimeDelta = TimeDelta::seconds(12);

/// The sender of a wake-up may see another partition count.
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_is_heard_on_whichever_partition_it_comes() {
    let mut test = Harness::new("other partition").await;
    let stranger = test.stranger().await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    let theirs = test.until_shared(&stranger).await;
    let own = (0..PARTITIONS).find(|partition| !theirs.contains(partition)).unwrap();
    let shard = u8::try_from(theirs[0]).unwrap();
    let deadline = test.now().await + TimeDelta::milliseconds(500);
    test.insert_of(1, shard.into(), deadline).await;
    test.wake_on(own, shard, deadline).await;
    test.until_expired(1).await;
    assert!(test.lateness().await[0] < TimeDelta::seconds(30), "not by a sweep");
    stranger.leave().await;
    worker.stop().await.unwrap();
}

mod full {
    use super::*;

    /// A group member that owns partitions but flips nothing represents every cause of a neglected shard.
    #[tokio::test(flavor = "multi_thread")]
    async fn shards_that_nobody_looks_at_are_swept_by_others_and_reported_until_they_are_drained() {
        let mut test = Harness::new("neglected").await;
        let stranger = test.stranger().await;
        let worker = test.start_with(|config| config.lost_after_seconds = 1);
        worker.until_part_ready("partitions").await;
        let owned = test.until_shared(&stranger).await;
        assert!(!owned.is_empty() && owned.len() < PARTITIONS as usize, "{owned:?}");
        let over = test.now().await - TimeDelta::minutes(1);
        for shard in 0..EXPIRY_SHARDS {
            test.insert_of(shard + 1, shard, over).await;
            // The worker may have looked at its own shards before the coupon came; no member looks at the stranger's.
            let shard = u8::try_from(shard).unwrap();
            if !owned.contains(&(i32::from(shard) % PARTITIONS)) {
                test.wake(shard, over).await;
            }
        }
        test.until_expired(EXPIRY_SHARDS).await;
        worker.until_unready("partitions", "are nobody's").await;
        worker.until_part_ready("partitions").await;
        stranger.leave().await;
        worker.stop().await.unwrap();
        test.nothing_ended_wrongly().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hold_that_nobody_can_end_makes_no_worker_say_that_its_shard_is_nobodys() {
        let mut test = Harness::new("stuck hold").await;
        let points = [FailPoints::default(), FailPoints::default()];
        let mut tried = points.each_ref().map(|points| points.hold("lapse.before_return"));
        let workers = points.map(|points| {
            test.start_with(|config| {
                config.fail_points = points;
                config.lost_after_seconds = 1;
            })
        });
        for worker in &workers {
            worker.until_part_ready("partitions").await;
        }
        let over = test.now().await - TimeDelta::minutes(1);
        // There is no such template.
        test.hold_in_shard(404, 1..2, over).await;
        test.wake(SHARD, over).await;
        // The owner tries to end it and, because nothing moves there, so does the other worker.
        for tried in &mut tried {
            tried.reached(1).await;
        }
        for worker in &workers {
            worker.until_part_ready("partitions").await;
        }
        for tried in tried {
            tried.let_go();
        }
        for worker in workers {
            worker.until_part_ready("partitions").await;
            worker.stop().await.unwrap();
        }
        assert_eq!(test.lapsed().await, 0);
    }

    /// The sender of the wake-ups still counts the old partitions when the group deals the shards again.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_deadline_that_another_worker_heard_of_is_known_to_the_owner_after_the_next_deal() {
        let mut test = Harness::new("heard elsewhere").await;
        // So no coupon is found as neglected or by a sweep.
        let start = || test.start_with(|config| config.lost_after_seconds = 3_600);
        let workers = [start(), start()];
        for worker in &workers {
            worker.until_part_ready("partitions").await;
        }
        let stranger = test.stranger().await;
        let theirs = test.until_shared(&stranger).await;
        // Each wake-up goes to another partition than its shard's. A worker with one of these hears of none of its own
        // shards.
        let heard: Vec<i32> = (0..PARTITIONS).filter(|one| !theirs.contains(one)).collect();
        let deadline = test.now().await + DEAL;
        for shard in expiry_shards() {
            test.insert_of(i64::from(shard) + 1, shard.into(), deadline).await;
            let own = heard.iter().position(|one| *one == i32::from(shard) % PARTITIONS);
            let other = heard[own.map_or(0, |own| own + 1) % heard.len()];
            test.wake_on(other, shard, deadline).await;
        }
        test.until_heard().await;
        stranger.leave().await;
        test.until_expired(EXPIRY_SHARDS).await;
        for worker in workers {
            worker.stop().await.unwrap();
        }
        test.nothing_ended_wrongly().await;
    }

    /// The group deals added partitions minutes later. Until then no worker reads them.
    #[tokio::test(flavor = "multi_thread")]
    async fn coupons_end_on_time_while_their_wake_ups_go_to_partitions_that_nobody_has_yet() {
        let mut test = Harness::new("added partitions").await;
        let worker = test.start_with(|config| config.lost_after_seconds = 3_600);
        worker.until_part_ready("partitions").await;
        test.raise_partitions(2 * PARTITIONS).await;
        let deadline = test.now().await + TimeDelta::milliseconds(500);
        for shard in expiry_shards() {
            test.insert_of(i64::from(shard) + 1, shard.into(), deadline).await;
            test.wake_on(i32::from(shard) % (2 * PARTITIONS), shard, deadline).await;
        }
        test.until_expired(EXPIRY_SHARDS).await;
        worker.stop().await.unwrap();
        test.nothing_ended_wrongly().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_of_wake_ups_that_cannot_be_read_keeps_no_other_from_the_worker_which_says_where()
     {
        let broker = OwnBroker::start("damaged-worker").await.unwrap();
        let mut test = Harness::on_broker("damaged wake-ups", &broker.brokers()).await;
        let topic = test.names.expiry();
        // Long enough to be compressed: its damage shows.
        test.send(1, &[b'x'; 2_000]).await;
        broker.spoil(&topic, 1, 0).unwrap();
        let worker = test.start();
        let named = format!("partition 1 of topic {topic} is held up at offset 0");
        worker.until_unready("partitions", &named).await;
        let deadline = test.now().await + TimeDelta::milliseconds(300);
        test.insert_of(1, 2, deadline).await;
        test.wake(2, deadline).await;
        test.until_expired(1).await;
        broker.spoil(&topic, 1, 0).unwrap();
        worker.until_part_ready("partitions").await;
        worker.stop().await.unwrap();
        test.nothing_ended_wrongly().await;
    }

    /// No coupon here has a wake-up: the worker finds them by polling the index.
    #[tokio::test(flavor = "multi_thread")]
    async fn while_no_broker_answers_coupons_end_on_time() {
        let mut broker = OwnBroker::start("worker-broker").await.unwrap();
        let mut test =
            Harness::on_broker("broker away", &broker.server.address().to_string()).await;
        let worker = test.start();
        worker.until_part_ready("partitions").await;
        broker.server.kill().unwrap();
        // The worker does not know yet that the broker is gone.
        test.insert(1, test.time() + TimeDelta::milliseconds(1)).await;
        test.until_expired(1).await;
        let late = test.lateness().await;
        assert!(late[0] < UNANNOUNCED_LATE_MAX, "{late:?}");
        worker.until_unready("partitions", "no broker answers").await;
        for id in 2..=4 {
            let deadline = test.now().await + TimeDelta::milliseconds(300);
            test.insert(id, deadline).await;
            test.until_expired(id).await;
        }
        let late = test.lateness().await;
        assert!(late[2] < TimeDelta::seconds(30), "not by a sweep: {late:?}");
        broker.server.start().await.unwrap();
        worker.until_part_ready("partitions").await;
        worker.stop().await.unwrap();
        test.nothing_ended_wrongly().await;
    }
}
