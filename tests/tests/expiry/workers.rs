//! Several expiry workers: the consumer group assigns all shards, each worker expires its own coupons, and a dead
//! worker's shards go to the others.

use chrono::TimeDelta;
use coupon::{EXPIRY_SHARDS, TemplateId};
use devstack::{Platform, Process};
use pipeline_tests::{World, until};

use crate::expiry::{another_worker, assert_ended_once, insert, statuses};

/// Coupons of each shard in one round.
const OF_EACH: i64 = 10;
/// Coupons of a round.
const ROUND: i64 = OF_EACH * EXPIRY_SHARDS;
/// From a round's start to its coupons' deadline: wake-ups are sent before.
const AHEAD: TimeDelta = TimeDelta::seconds(1);
/// The template id of coupons without a claim.
const NO_SALE: TemplateId = TemplateId(0);

#[tokio::test]
async fn workers_share_all_shards_each_ends_its_own_coupons_and_a_dead_ones_go_to_the_others() {
    devstack::quick_fault_test_of("expiry-worker");
    let world = World::start("workers").await;
    let mut others = vec![another_worker(&world, "second"), another_worker(&world, "third")];
    for other in &mut others {
        other.expiry_worker.start().await.unwrap();
    }
    let shared = until_shared(&world, &others).await;
    let mut connection = world.mysql().await;
    let now = world.clock.now();
    insert(&mut connection, 1..=ROUND, now + AHEAD, now).await;
    world.until(NO_SALE, |counts| counts.expired == ROUND).await;
    assert_eq!(figures(&world, &others, "expiry_worker_shards").await, shared, "nobody has left");
    let own: Vec<i64> = shared.iter().map(|shards| shards * OF_EACH).collect();
    // Each flip is counted a moment after it is visible.
    until(async || flips(&world, &others).await, |flips| *flips == own).await;

    // The next coupons end while no worker owns the dead one's shards.
    let mut dead = others.remove(0);
    dead.expiry_worker.kill().unwrap();
    let now = world.clock.now();
    insert(&mut connection, ROUND + 1..=ROUND * 2, now + AHEAD, now).await;
    until_shared(&world, &others).await;
    world.until(NO_SALE, |counts| counts.expired == ROUND * 2).await;
    let all = own[0] + own[2] + ROUND;
    until(async || flips(&world, &others).await.iter().sum::<i64>(), |sum| *sum == all).await;
    assert_ended_once(&world, &statuses(&mut connection).await).await;
    drop(connection);
    for other in &mut others {
        other.expiry_worker.stop().await.unwrap();
    }
    world.end().await;
}

/// Waits until every worker has shards and all shards are owned; returns how many each has.
async fn until_shared(world: &World, others: &[Platform]) -> Vec<i64> {
    let held = async || figures(world, others, "expiry_worker_shards").await;
    let is_shared = |held: &Vec<i64>| {
        held.iter().all(|shards| *shards > 0) && held.iter().sum::<i64>() == EXPIRY_SHARDS
    };
    until(held, is_shared).await
}

/// Returns how many coupons each worker has flipped.
async fn flips(world: &World, others: &[Platform]) -> Vec<i64> {
    figures(world, others, "expiry_worker_flips_total").await
}

/// Returns a metric of each worker, the platform's own first.
async fn figures(world: &World, others: &[Platform], name: &str) -> Vec<i64> {
    let others = others.iter().map(|other| &other.expiry_worker);
    let workers: Vec<&Process> =
        [&world.platform.expiry_worker].into_iter().chain(others).collect();
    let mut figures = Vec::new();
    for worker in workers {
        figures.push(worker.metric(name).await.unwrap_or(0.0) as i64);
    }
    figures
}

mod full {
    use super::*;

    /// The next rebalance, here of a worker that joins, deals out the new partitions. Until each worker has counted them,
    /// some shards would have no owner.
    #[tokio::test]
    async fn partitions_that_are_added_under_running_workers_leave_no_shard_to_nobody() {
        let world = World::start("more partitions").await;
        let mut others = vec![another_worker(&world, "second")];
        others[0].expiry_worker.start().await.unwrap();
        until_shared(&world, &others).await;
        let brokers = &world.sources.brokers;
        let topic = world.sources.topics.expiry();
        let more = 2 * topic::partitions(brokers, &topic).await.unwrap();
        topic::verify::raise_partitions(brokers, &topic, more).await.unwrap();
        let added = async || topic::partitions(brokers, &topic).await.ok();
        until(added, |partitions| *partitions == Some(more)).await;

        others.push(another_worker(&world, "third"));
        others[1].expiry_worker.start().await.unwrap();
        let shared = until_shared(&world, &others).await;
        let mut connection = world.mysql().await;
        let now = world.clock.now();
        insert(&mut connection, 1..=ROUND, now + AHEAD, now).await;
        world.until(NO_SALE, |counts| counts.expired == ROUND).await;
        // The worker that gets a wake-up flips; the sender may know the old number of partitions.
        until(async || flips(&world, &others).await.iter().sum::<i64>(), |sum| *sum == ROUND).await;
        let sweeps = async || figures(&world, &others, "expiry_worker_sweeps_total").await;
        let before = sweeps().await;
        let asked = async || {
            for worker in [&world.platform, &others[0], &others[1]] {
                worker.expiry_worker.ask().unwrap();
            }
            sweeps().await
        };
        until(asked, |now| now.iter().zip(&before).all(|(now, before)| now > before)).await;
        for worker in [&world.platform, &others[0], &others[1]] {
            assert!(worker.expiry_worker.is_ready().await, "a shard is nobody's");
        }
        assert_eq!(
            figures(&world, &others, "expiry_worker_shards").await,
            shared,
            "nobody has left"
        );
        assert_ended_once(&world, &statuses(&mut connection).await).await;
        drop(connection);
        for other in &mut others {
            other.expiry_worker.stop().await.unwrap();
        }
        world.end().await;
    }
}
