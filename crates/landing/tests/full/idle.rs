//! Idle templates cost the gate's Redis a few commands, however many there are, and a change at any one of them is
//! noticed.

use std::sync::Arc;

use coupon::{Claim, TemplateId, UserId};
use landing::{
    gates::{Gates, PRELOAD},
    keeper::Keeper,
    queue::NoQueue,
    resolver::Watch,
};
use redis_gate::{Meta, QueueOptions, Verdict};
use runtime::FailPoints;

use crate::{
    harness::{World, claim, now},
    private,
};

/// Open templates without claims.
const IDLE: i64 = 300;

/// Checks to count.
const LOOKS: u64 = 20;

/// Limit of commands for one check of the keeper plus one scan of the resolver. Each alone takes hundreds if it checks
/// every gate individually.
const COMMANDS_MAX: u64 = 150;

/// Commands that this Redis has run since it started, including those of scripts.
async fn commands(world: &World) -> u64 {
    let client = redis::Client::open(world.gate_url.as_str()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.unwrap();
    let calls = stats.lines().filter_map(|line| line.split_once("calls=")?.1.split(',').next());
    calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
}

/// Sends one command, like a person who edits the gate manually.
async fn by_hand(world: &World, words: &[&str]) {
    let client = redis::Client::open(world.gate_url.as_str()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut redis).await.unwrap();
}

fn meta_key(world: &World, id: TemplateId) -> String {
    format!("{}gate:1:{{{id}:0}}:meta", world.prefix)
}

async fn meta(world: &World, id: TemplateId) -> Meta {
    world.gate.meta(id).await.unwrap().unwrap()
}

async fn look(world: &World, keeper: &mut Keeper, watch: &mut Watch) {
    keeper.look(now()).await.unwrap();
    world.resolver().look_again(watch, now()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_templates_cost_the_gate_a_few_commands_and_whatever_happens_at_one_is_noticed() {
    let servers = private::servers().await;
    let world = private::world(&servers, "idle", 10, 2).await;
    let ids: Vec<TemplateId> = (1..=IDLE).map(|number| TemplateId(1_000 + number)).collect();
    for id in ids.iter().copied() {
        world.publish(id, 10, 2).await;
        world.rebuild_gate_of(id).await;
    }
    let queue = Arc::new(NoQueue);
    let points = FailPoints::default();
    let (_gates, mut keeper) =
        Gates::new(world.pool.clone(), world.gate.clone(), queue, "keeper", PRELOAD, points);
    let mut watch = Watch::default();
    // The first check reads each gate individually.
    look(&world, &mut keeper, &mut watch).await;
    let before = commands(&world).await;
    for _ in 0..LOOKS {
        look(&world, &mut keeper, &mut watch).await;
    }
    let each = (commands(&world).await - before) / LOOKS;
    assert!(each <= COMMANDS_MAX, "{each} commands a look");
    assert!(each > 0);

    // An admission whose process died is released by the next scan of the resolver.
    let [admitted, deleted, emptied, written] = [7, 77, 177, 277].map(|at| ids[at]);
    let lost = Claim { template_id: admitted, ..claim(UserId(5), "a", 1) };
    let epoch = meta(&world, admitted).await.epoch;
    let verdict = world.gate.claim(&lost, epoch, now(), QueueOptions::direct()).await.unwrap();
    assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
    assert_eq!(meta(&world, admitted).await.stock, 9);
    let resolved = world.resolver().look_again(&mut watch, now()).await.unwrap();
    assert_eq!((resolved.released, meta(&world, admitted).await.stock), (1, 10));

    // A deleted gate is back after the keeper's next check.
    by_hand(&world, &["DEL", &meta_key(&world, deleted)]).await;
    let epoch = meta(&world, emptied).await.epoch;
    by_hand(&world, &["HSET", &meta_key(&world, emptied), "users", "3"]).await;
    by_hand(&world, &["HSET", &meta_key(&world, written), "stock", "11"]).await;
    keeper.look(now()).await.unwrap();
    assert!(meta(&world, deleted).await.is_open());
    // A manual edit is found when the gate's turn comes.
    let turns = IDLE.unsigned_abs().div_ceil(16) + 1;
    for _ in 0..turns {
        keeper.look(now()).await.unwrap();
    }
    assert_eq!(meta(&world, written).await.stock, 10);
    let found = meta(&world, emptied).await;
    assert!(found.epoch > epoch && found.users == 0, "{found:?}");
    drop(servers);
}
