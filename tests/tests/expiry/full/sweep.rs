//! The sweep finds exactly the coupons without a wake-up, and none of the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
};

use chrono::TimeDelta;
use coupon::{CouponStatus, EXPIRY_SHARDS, TemplateId, UserId};
use devstack::PlatformOptions;
use mysql_store::MySqlConnection;
use pipeline_tests::{REST_MAX, World};
use serde_json::Value;
use shopper::{NewTemplate, Wish};
use verifier::at_rest;

use crate::expiry::{assert_ended_once, insert, statuses};

/// The template id of coupons without a claim.
const NO_SALE: TemplateId = TemplateId(0);
/// One coupon of each shard: the shard is the user id modulo the number of shards, and here each user id equals its
/// coupon's id.
const ONE_OF_EACH: Range<i64> = 1_000..1_000 + EXPIRY_SHARDS;
/// Lost coupons that have ended: three in each of the first ten shards.
const LOST: [Range<i64>; 3] = [64_000..64_010, 128_000..128_010, 192_000..192_010];
/// Lost coupons that end soon: two in each of the next ten shards.
const LOST_AHEAD: [Range<i64>; 2] = [64_020..64_030, 128_020..128_030];
/// Coupons that ended and changed a moment ago count as on their way, not as lost: one in each of ten other shards.
const ON_ITS_WAY: Range<i64> = 64_040..64_050;
/// Time until the deadline of those that end soon: after the sweep.
const AHEAD: TimeDelta = TimeDelta::seconds(10);

#[tokio::test]
async fn the_sweep_finds_exactly_what_was_lost() {
    let json = |options: PlatformOptions| options.with_env("LOG_FORMAT", "json");
    let mut world = World::start_with("sweep", json).await;
    let template = world.template(60, |new| NewTemplate { valid_for_ms: 500, ..new }).await;
    let wave = |first: i64| (first..first + 30).map(|user| Wish::one(template, UserId(user)));
    world.crowd().run(wave(1).collect()).await.unwrap();
    world.until(template, |counts| counts.expired == 30).await;
    world.sweep().await;
    assert_eq!(finds(&world).await, 0, "nothing was lost so far");
    let mut connection = world.mysql().await;
    forget_who_was_woken(&mut world, &mut connection).await;

    // Without a consumer, none of these gets a wake-up.
    let now = world.clock.now();
    let day_ago = now - TimeDelta::days(1);
    insert(&mut connection, LOST.into_iter().flatten(), now, day_ago).await;
    insert(&mut connection, LOST_AHEAD.into_iter().flatten(), now + AHEAD, day_ago).await;
    insert(&mut connection, ON_ITS_WAY, now, now).await;
    let before = expired(&mut connection).await;
    world.sweep().await;
    let lost: BTreeSet<i64> = LOST.into_iter().chain(LOST_AHEAD).flatten().collect();
    let all = EXPIRY_SHARDS + lost.len() as i64;
    world.until(NO_SALE, |counts| counts.expired >= all).await;
    let after = expired(&mut connection).await;
    assert_eq!(after.difference(&before).copied().collect::<BTreeSet<_>>(), lost);
    // The worker counts the lost coupons and logs their number by shard; no other shards had any.
    assert_eq!(finds(&world).await, lost.len() as i64);
    assert_eq!(reported_lost(&world), by_shard(&lost));

    // Coupons with a late wake-up, or a timely one, are not counted as lost.
    world.platform.sync_consumer.start().await.unwrap();
    world.crowd().run(wave(31).collect()).await.unwrap();
    world.until(template, |counts| counts.expired == 60).await;
    at_rest(&world.sources, &world.clock, REST_MAX).await.unwrap();
    world.sweep().await;
    assert_eq!(finds(&world).await, lost.len() as i64);
    assert_eq!(reported_lost(&world), by_shard(&lost));
    assert_ended_once(&world, &statuses(&mut connection).await).await;
    drop(connection);
    world.end().await;
}

/// Stops the consumer and restarts the worker, so that no shard was woken: a woken shard may be read a second time.
/// Returns after the worker has read each shard, as at every start.
async fn forget_who_was_woken(world: &mut World, connection: &mut MySqlConnection) {
    world.platform.sync_consumer.stop().await.unwrap();
    world.platform.expiry_worker.stop().await.unwrap();
    let now = world.clock.now();
    insert(connection, ONE_OF_EACH, now, now - TimeDelta::days(1)).await;
    world.platform.expiry_worker.start().await.unwrap();
    world.until(NO_SALE, |counts| counts.expired == EXPIRY_SHARDS).await;
    // After a sweep each shard's next deadline is known, because a sweep never runs in the middle of a read.
    world.sweep().await;
    assert_eq!(finds(world).await, 0, "a start needs no request");
}

/// Returns how many coupons the running worker has counted as lost.
async fn finds(world: &World) -> i64 {
    world.sweep_finds().await as i64
}

/// Returns the lost coupons by shard, from the worker's log.
fn reported_lost(world: &World) -> BTreeMap<i64, i64> {
    let log = fs::read_to_string(world.platform.expiry_worker.log()).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut lost = BTreeMap::new();
    for line in
        lines.filter(|line| line["message"] == "coupons with a deadline that no wake-up announced")
    {
        *lost.entry(line["shard"].as_i64().unwrap()).or_default() += line["lost"].as_i64().unwrap();
    }
    lost
}

fn by_shard(ids: &BTreeSet<i64>) -> BTreeMap<i64, i64> {
    let mut shards = BTreeMap::new();
    for id in ids {
        *shards.entry(id % EXPIRY_SHARDS).or_default() += 1;
    }
    shards
}

/// Returns the coupons that are expired in MySQL.
async fn expired(connection: &mut MySqlConnection) -> BTreeSet<i64> {
    let all = statuses(connection).await.into_iter();
    all.filter(|(_, status)| *status == CouponStatus::Expired).map(|(id, _)| id).collect()
}
