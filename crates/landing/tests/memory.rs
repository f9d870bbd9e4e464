//! Rebuilds on a Redis whose memory is nearly full.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coupon::UserId;
use landing::{
    claims::{Answer, Unavailable},
    gates::{Gates, PRELOAD},
    queue::NoQueue,
    rebuild::{RebuildError, rebuild},
};
use redis_gate::Phase;
use runtime::FailPoints;
use testkit::until_true;

use crate::{
    harness::{Process, TEMPLATE, World, claim, now},
    private,
};

/// Users with a coupon: several megabytes of entries.
const USERS: i64 = 60_000;

async fn redis(world: &World) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(world.gate_url.as_str()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Bytes that Redis uses once unlinked keys are freed.
async fn used(world: &World) -> u64 {
    let mut redis = redis(world).await;
    let field = |info: &str, name: &str| -> u64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().trim().parse().unwrap()
    };
    loop {
        let info: String = redis::cmd("INFO").arg("memory").query_async(&mut redis).await.unwrap();
        if field(&info, "lazyfree_pending_objects") == 0 {
            return field(&info, "used_memory");
        }
    }
}

async fn allow(world: &World, bytes: u64) {
    let mut redis = redis(world).await;
    let set = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).to_owned();
    let _: () = set.query_async(&mut redis).await.unwrap();
}

/// A world in which [`USERS`] users have landed one coupon each, its gate open; and the gate's size in bytes.
async fn full_world(servers: &devstack::Servers, name: &str) -> (World, u64) {
    let world = private::world(servers, name, USERS + 10, 1).await;
    allow(&world, 0).await;
    let empty = used(&world).await;
    let digit = "(select 0 d union all select 1 union all select 2 union all select 3 union all select 4 \
                 union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)";
    let sql = format!(
        "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, version, \
         expiry_shard, claimed_at, changed_at, valid_from, valid_until) \
         select 1000 + n, {TEMPLATE}, 1000 + n, 1, 1000 + n, 1, 0, 1, 0, now(), now(), now(), now() from ( \
         select a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d as n \
         from {digit} a, {digit} b, {digit} c, {digit} e, {digit} f) numbers where n < {USERS}"
    );
    world.execute(&sql).await;
    let sql = format!("update template_stock set stock = 10 where template_id = {TEMPLATE}");
    world.execute(&sql).await;
    world.rebuild().await;
    assert_eq!(world.meta().await.users, USERS.unsigned_abs());
    let gate = used(&world).await - empty;
    (world, gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_older_epochs_left_behind_is_found_and_the_gate_that_is_open_stays() {
    let world = World::open("leftovers", 10, 1).await;
    let process = Process::without_keeper(&world, "a").await;
    process.land(&claim(UserId(1), "a", 1)).await;
    world.settled().await;
    let epoch = world.rebuild().await;
    let mut redis = redis(&world).await;
    let found: Vec<String> = redis::cmd("KEYS")
        .arg(format!("{}gate:*:users:{epoch}", world.prefix))
        .query_async(&mut redis)
        .await
        .unwrap();
    let [users] = &found[..] else { panic!("{found:?}") };
    // Keys of an old epoch, and of a template whose gate is gone.
    for (from, to) in [
        (format!(":users:{epoch}"), ":users:-99".to_owned()),
        ("{10:".to_owned(), "{11:".to_owned()),
    ] {
        let stale = users.replace(&from, &to);
        let copied: i64 =
            redis::cmd("COPY").arg(users).arg(&stale).query_async(&mut redis).await.unwrap();
        assert_eq!(copied, 1, "{stale}");
    }
    assert_eq!(world.gate.remove_stale().await.unwrap(), 2);
    assert_eq!(world.gate.remove_stale().await.unwrap(), 0);
    world.assert_gate_equals_mysql().await;
}

mod full {
    use super::*;

    /// The least time between two attempts to rebuild a gate: half of the first step of the keeper's back-off.
    const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

    #[tokio::test(flavor = "multi_thread")]
    async fn a_gate_is_rebuilt_where_there_is_room_for_it_once_and_a_quarter() {
        let servers = private::servers().await;
        let (world, gate) = full_world(&servers, "room_for_one").await;
        allow(&world, used(&world).await + gate / 4).await;
        for _ in 0..3 {
            world.rebuild().await;
            assert_eq!(world.meta().await.users, USERS.unsigned_abs());
        }
        allow(&world, 0).await;
        world.assert_gate_equals_mysql().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_gate_without_room_leaves_nothing_behind_is_left_alone_for_a_while_and_opens_once_there_is_room()
     {
        let servers = private::servers().await;
        let (world, gate) = full_world(&servers, "no_room").await;
        let full = used(&world).await;
        allow(&world, full - gate / 2).await;
        let points = FailPoints::default();
        let ended = rebuild(&world.pool, &world.gate, &NoQueue, TEMPLATE, "test", &points).await;
        assert!(matches!(&ended, Err(RebuildError::Gate(error)) if error.is_out_of_memory()));
        let meta = world.meta().await;
        assert_eq!(meta.phase, Phase::Loading);
        assert_eq!(world.gate.user_count(TEMPLATE, meta.epoch).await.unwrap(), 0);
        assert!(used(&world).await < full - gate * 3 / 4, "what was loaded is freed");

        // A keeper tries, fails, and does not raise the epoch with every later check.
        let queue = Arc::new(NoQueue);
        let points = FailPoints::default();
        let (gates, mut keeper) =
            Gates::new(world.pool.clone(), world.gate.clone(), queue, "keeper", PRELOAD, points);
        let began = Instant::now();
        keeper.look(now()).await.unwrap();
        let failed = world.meta().await.epoch;
        assert!(failed > meta.epoch);
        let mut looks = 0;
        while began.elapsed() < SHORTEST_PAUSE * 2 {
            keeper.look(now()).await.unwrap();
            looks += 1;
        }
        let attempts = world.meta().await.epoch.0 - failed.0;
        let pauses = began.elapsed().as_millis() / SHORTEST_PAUSE.as_millis();
        assert!(
            u128::try_from(attempts).unwrap() <= pauses,
            "{attempts} attempts in {looks} looks"
        );
        let process = Process::without_keeper(&world, "a").await;
        let late = claim(UserId(1), "a", 1);
        assert_eq!(process.claim(&late).await, Answer::Unavailable(Unavailable::GateLoading));

        allow(&world, 0).await;
        until_true(async || {
            keeper.look(now()).await.unwrap();
            world.meta().await.is_open()
        })
        .await;
        assert!(gates.known(TEMPLATE) > failed);
        process.land(&claim(UserId(1), "a", 1)).await;
        world.settled().await;
        world.assert_gate_equals_mysql().await;
    }
}
