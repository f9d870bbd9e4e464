//! A gate with a replica and a sentinel: a switch of masters in the middle of a sale, a stale replica that is promoted,
//! a 202 that waits for a replica, and two masters at once.

use std::time::Duration;

use coupon::UserId;
use devstack::{Endpoints, OwnPair, OwnRedis, TestServers};
use mysql_store::verify;
use pipeline_tests::{
    World, histories,
    promises::{Ends, Promises},
    until,
};
use shopper::{Crowd, NewTemplate, Wish};
use testkit::Proxy;
use verifier::{Sampler, Verdict};

use crate::{
    claims::faults::start_with,
    queued::{
        KEY, accepted, after_topic, assert_sold, full::lost_gates::Sale, said, shopper, two_apis,
    },
};

/// What a gate requires of its server.
const FIT: &[&str] = &["--maxmemory-policy", "noeviction"];

/// Users whose claims a replica has, and as many whose claims only the master has.
const USERS: i64 = 300;

/// How long a user of two masters insists: the fight of their keepers does not end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// A platform whose gate is a master with a replica.
async fn start(name: &str) -> (OwnPair, World) {
    let shared = TestServers::shared();
    let pair = OwnPair::start(&shared.scope(name).database, FIT).await.unwrap();
    let endpoints = Endpoints { gate_redis_url: pair.url(), ..shared.endpoints().clone() };
    let world = World::start_on(&TestServers::at(endpoints), name, two_apis).await;
    (pair, world)
}

#[tokio::test]
async fn a_switch_of_masters_in_a_queued_sale_loses_no_202_of_the_topic() {
    let (mut pair, world) = start("queued switch").await;
    let mut sale = Sale::open(&world).await;
    let load = sale.begin(&world).await;
    pair.master.server.kill().unwrap();
    sale.ended(load).await;
    let crowd = world.crowd();
    sale.close(&world, crowd).await;
    world.end().await;
}

/// The replica was cut off a wave before its master died: it has neither that wave's claims nor its stock.
#[tokio::test]
async fn a_stale_replica_that_is_promoted_in_a_queued_sale_loses_no_202_of_the_topic() {
    let mut master = OwnRedis::view("queued-stale-master", FIT).await.unwrap();
    let replica = follower("queued-stale-replica", &master).await;
    let address = replica.server.address();
    let proxy = Proxy::before(&master.url()).await;
    let gate_redis_url = proxy.instead_of(&master.url());
    let endpoints = Endpoints { gate_redis_url, ..TestServers::shared().endpoints().clone() };
    let world = World::start_on(&TestServers::at(endpoints), "queued stale", two_apis).await;
    let mut sale = Sale::open(&world).await;
    let load = sale.begin(&world).await;
    said(address, &["REPLICAOF", "NO", "ONE"]).await;
    sale.ended(load).await;
    let load = sale.begin(&world).await;
    master.server.kill().unwrap();
    proxy.lead_to(address);
    proxy.cut();
    sale.ended(load).await;
    let crowd = world.crowd();
    sale.close(&world, crowd).await;
    world.end().await;
}

#[tokio::test]
async fn a_202_after_a_replica_outlives_its_master_and_is_not_given_without_the_replica() {
    let (mut pair, mut world) = start("queued replica").await;
    let after_replica = |new: NewTemplate| new.in_mode("queued", "replica");
    let template = world.template(20, after_replica).await;
    let mut promises = Promises::default();
    // Only the outbox has the claims.
    world.platform.relay.pause().unwrap();
    for user in 1..=5 {
        accepted(&mut promises, &shopper(&world, 0, user), template).await;
    }
    pair.replica.server.pause().unwrap();
    let unknown = shopper(&world, 1, 6).claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(unknown.status, 503, "{unknown:?}");
    assert!(unknown.retry_after.is_some(), "{unknown:?}");
    pair.replica.server.resume().unwrap();
    // The same key again, once the replica has heard of it.
    accepted(&mut promises, &shopper(&world, 0, 6), template).await;
    let sentinel = pair.sentinel.server.address();
    let known = async || said(sentinel, &["SENTINEL", "REPLICAS", "pair"]).await;
    until(known, |said| !said.contains("s_down") && !said.contains("disconnected")).await;
    pair.master.server.kill().unwrap();
    world.platform.relay.resume().unwrap();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(6));
    assert_sold(&world, template, 6).await;
    world.end().await;
}

/// A replica takes over that was cut off before the last claims: none of these was answered 202, and all others are
/// kept.
#[tokio::test]
async fn a_replica_that_takes_over_lacks_no_claim_that_was_answered_202_after_it() {
    let mut master = OwnRedis::view("queued-copied-master", FIT).await.unwrap();
    let replica = follower("queued-copied-replica", &master).await;
    let proxy = Proxy::before(&master.url()).await;
    let gate_redis_url = proxy.instead_of(&master.url());
    let endpoints = Endpoints { gate_redis_url, ..TestServers::shared().endpoints().clone() };
    let mut world = World::start_on(&TestServers::at(endpoints), "queued copied", two_apis).await;
    let template = world.template(2 * USERS, |new| new.in_mode("queued", "replica")).await;
    // Only the gate has the claims.
    world.platform.relay.pause().unwrap();
    let left = async || world.sources.gate.meta(template).await.unwrap().unwrap().stock;
    let mut waves = Vec::new();
    for first in [1, USERS + 1] {
        let wishes = (first..first + USERS).map(|user| Wish::one(template, UserId(user))).collect();
        let crowd = world.crowd();
        waves.push(tokio::spawn(async move { crowd.run(wishes).await.unwrap() }));
        until(left, |left| *left == 2 * USERS - first - USERS + 1).await;
        if first == 1 {
            said(replica.server.address(), &["REPLICAOF", "NO", "ONE"]).await;
        }
    }
    master.server.kill().unwrap();
    let _next = follower("queued-copied-next", &replica).await;
    proxy.lead_to(replica.server.address());
    proxy.cut();
    world.platform.relay.resume().unwrap();
    let mut runs = Vec::new();
    for wave in waves {
        runs.push(wave.await.unwrap());
    }
    assert!(runs.iter().all(|run| run.given_up == 0));
    let mut promises = Promises::of(&runs);
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    assert_eq!(world.count(template).await.all(), 2 * USERS);
    world.assert_sound(Some(&histories(runs))).await;
    world.end().await;
}

/// Starts a replica of a server, and waits until it follows.
async fn follower(name: &str, of: &OwnRedis) -> OwnRedis {
    let at = of.server.address();
    let of_master = format!("{} {}", at.ip(), at.port());
    let settings = [FIT, &["--replicaof", &of_master]].concat();
    let replica = OwnRedis::view(name, &settings).await.unwrap();
    let follows = async || said(replica.server.address(), &["INFO", "replication"]).await;
    until(follows, |said| said.contains("master_link_status:up")).await;
    replica
}

/// With its first replica a server gets another replication id, while its connections stay. A process that knew it by
/// the old one would rebuild the gates of those that know the new one, and the other way round.
#[tokio::test]
async fn a_replica_that_joins_and_an_api_that_restarts_cost_a_new_epoch_and_no_claim() {
    let master = OwnRedis::view("queued-joined-master", FIT).await.unwrap();
    let gate_redis_url = master.url();
    let endpoints = Endpoints { gate_redis_url, ..TestServers::shared().endpoints().clone() };
    let servers = TestServers::at(endpoints);
    let mut world = World::start_on(&servers, "queued joined", two_apis).await;
    let template = world.template(60, |new| new.in_mode("queued", "replica")).await;
    let epoch_of = async |world: &World| {
        let sql = format!("select epoch from template_stock where template_id = {template}");
        verify::number(&mut world.mysql().await, &sql).await.unwrap()
    };
    let before = epoch_of(&world).await;
    let _replica = follower("queued-joined-replica", &master).await;
    world.platform.apis[1].stop().await.unwrap();
    world.platform.apis[1].start().await.unwrap();
    let mut promises = Vec::new();
    for first in [1, 31] {
        let wishes = (first..first + 30).map(|user| Wish::one(template, UserId(user))).collect();
        let run = world.crowd().run(wishes).await.unwrap();
        assert_eq!(run.given_up, 0);
        promises.push(run);
    }
    let ends = Promises::of([&promises[0], &promises[1]]).kept(&world).await;
    assert!(ends.rejected.is_empty() && ends.lost == 0, "{ends:?}");
    assert_sold(&world, template, 60).await;
    // One for each process that was the first to see the new id.
    let after = epoch_of(&world).await;
    assert!((before + 1..=before + 2).contains(&after), "{before}, then {after}");
    world.assert_sound(None).await;
    world.end().await;
}

/// Each api has a gate of its own under the same keys, as when an old master goes on answering: MySQL's epochs decide.
#[tokio::test]
async fn two_masters_at_once_oversell_nothing_and_one_alone_sells_the_rest() {
    let other = OwnRedis::view("queued-two-masters", FIT).await.unwrap();
    let mut world = World::start_queued_with("queued two masters", two_apis).await;
    let template = world.template(100, after_topic).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    let wave = |first: i64| {
        let users = first..first + 200;
        users.map(|user| Wish::one(template, UserId(user))).collect::<Vec<_>>()
    };
    start_with(&mut world.platform.apis[1], "GATE_REDIS_URL", &other.url()).await;
    let crowd = Crowd::new(world.apis.clone(), 32, PATIENCE);
    let both = crowd.run(wave(1)).await.unwrap();
    let sold = world.count(template).await.all();
    assert!(sold <= 100, "{sold} of 100 are sold");
    let url = world.scope.endpoints.gate_redis_url.clone();
    start_with(&mut world.platform.apis[1], "GATE_REDIS_URL", &url).await;
    let last = world.crowd().run(wave(1_000)).await.unwrap();
    assert_eq!(last.given_up, 0);
    let mut promises = Promises::of([&both, &last]);
    let ends = promises.kept(&world).await;
    assert!(ends.rejected.is_empty(), "{ends:?}");
    let sold = async || world.count(template).await.all();
    until(sold, |sold| *sold == 100).await;
    world.assert_sound(None).await;
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    world.end().await;
}
