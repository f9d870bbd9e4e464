//! Shards whose owner does not drain them, and an unreachable broker.

use chrono::TimeDelta;
use coupon::EXPIRY_SHARDS;
use devstack::OwnBroker;

use crate::harness::{Harness, PARTITIONS};

/// A group member that owns partitions but flips nothing represents every cause of a neglected shard.
#[tokio::test(flavor = "multi_thread")]
async fn shards_that_nobody_looks_at_are_swept_by_others_and_reported() {
    let mut test = Harness::new("neglected").await;
    let stranger = test.stranger().await;
    let worker = test.start_with(|config| config.lost_after_seconds = 1);
    worker.until_part_ready("partitions").await;
    let owned = test.until_shared(&stranger).await;
    assert!(!owned.is_empty() && owned.len() < PARTITIONS as usize, "{owned:?}");
    let over = test.now().await - TimeDelta::minutes(1);
    for shard in 0..EXPIRY_SHARDS {
        test.insert_of(shard + 1, shard, over).await;
    }
    test.until_expired(EXPIRY_SHARDS).await;
    worker.until_unready("partitions", "are nobody's").await;
    // After the next assignment the shards are its own, and it is ready.
    stranger.leave().await;
    worker.until_part_ready("partitions").await;
    worker.stop().await.unwrap();
    test.nothing_ended_wrongly().await;
}

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
    assert!(test.lateness().await[0] < TimeDelta::seconds(5), "not by a sweep");
    stranger.leave().await;
    worker.stop().await.unwrap();
}

/// No coupon here has a wake-up: the worker finds them by polling the index.
#[tokio::test(flavor = "multi_thread")]
async fn while_no_broker_answers_coupons_end_on_time() {
    let mut broker = OwnBroker::start("worker-broker").await.unwrap();
    let mut test = Harness::on_broker("broker away", &broker.server.address().to_string()).await;
    let worker = test.start();
    worker.until_part_ready("partitions").await;
    test.insert(1, test.time() + TimeDelta::milliseconds(1)).await;
    broker.server.kill().unwrap();
    worker.until_unready("partitions", "no broker answers").await;
    for id in 2..=4 {
        let deadline = test.now().await + TimeDelta::milliseconds(300);
        test.insert(id, deadline).await;
        test.until_expired(id).await;
    }
    let late = test.lateness().await;
    assert!(late[2] < TimeDelta::seconds(5), "{late:?}");
    broker.server.start().await.unwrap();
    worker.until_part_ready("partitions").await;
    worker.stop().await.unwrap();
    test.nothing_ended_wrongly().await;
}
