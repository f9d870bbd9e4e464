//! The rebuild: its result equals MySQL, and an overtaken rebuild opens no gate.

use coupon::{Epoch, TemplateId, UserId};
use landing::{
    queue::NoQueue,
    rebuild::{Rebuilt, rebuild},
};
use mysql_store::{lease, stock};
use redis_gate::Phase;
use runtime::FailPoints;

use crate::harness::{Process, TEMPLATE, USER, World, claim, execute, somebody_waits_for_a_table};

async fn rebuilt_by_mine(world: &World, template: TemplateId) -> Rebuilt {
    let points = FailPoints::default();
    rebuild(&world.pool, &world.gate, &NoQueue, template, "mine", &points).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_gate_equals_mysql() {
    let world = World::open("rebuilt", 100, 5).await;
    let process = Process::start(&world, "a").await;
    for (user, quantity) in [(70, 2), (71, 5), (72, 1), (70, 3)] {
        process.land(&claim(UserId(user), &format!("key-{quantity}"), quantity)).await;
    }
    let before = world.meta().await.epoch;
    let epoch = world.rebuild().await;
    assert!(epoch > before);
    world.assert_gate_equals_mysql().await;
    assert_eq!(world.meta().await.stock, 89);
    assert_eq!(world.gate.user_count(TEMPLATE, before).await.unwrap(), 0, "the older one is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn rebuilds_at_the_same_time_end_with_one_open_gate_that_equals_mysql() {
    let world = World::open("at the same time", 100, 5).await;
    let process = Process::start(&world, "a").await;
    process.land(&claim(USER, "a", 2)).await;
    // Its keeper would find a loading gate, and might overtake all three rebuilds.
    drop(process);
    for _ in 0..5 {
        // The same holder may take the lease any number of times, so the rebuilds really run concurrently.
        let points = FailPoints::default();
        let one = || rebuild(&world.pool, &world.gate, &NoQueue, TEMPLATE, "same", &points);
        let (a, b, c) = tokio::join!(one(), one(), one());
        let ends = [a.unwrap(), b.unwrap(), c.unwrap()];
        assert!(ends.iter().any(|end| matches!(end, Rebuilt::Open(_))), "{ends:?}");
        assert_eq!(world.meta().await.phase, Phase::Open);
        world.assert_gate_equals_mysql().await;
    }
}

#[tokio::test]
async fn a_rebuild_that_another_process_is_at_is_left_to_it() {
    let world = World::open("elsewhere", 10, 1).await;
    let epoch = world.meta().await.epoch;
    let mut connection = world.connection().await;
    let long = std::time::Duration::from_secs(600);
    let name = format!("rebuild:{TEMPLATE}");
    assert!(lease::take(&mut connection, &name, "other", long).await.unwrap());
    let ended = rebuilt_by_mine(&world, TEMPLATE).await;
    assert_eq!(ended, Rebuilt::Elsewhere);
    let stock = stock::get(&mut connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!((world.meta().await.epoch, stock.epoch), (epoch, epoch));
}

#[tokio::test]
async fn a_template_that_does_not_exist_has_no_gate() {
    let world = World::open("no template", 10, 1).await;
    let nowhere = TemplateId(99);
    let ended = rebuilt_by_mine(&world, nowhere).await;
    assert_eq!(ended, Rebuilt::NoTemplate);
    assert_eq!(world.gate.meta(nowhere).await.unwrap(), None);
}

#[tokio::test]
async fn a_rebuild_whose_gate_knows_a_later_epoch_than_mysql_begins_one_above_it() {
    let world = World::open("later epoch", 10, 1).await;
    let later = Epoch(1_000);
    assert!(world.gate.begin(TEMPLATE, later).await.unwrap());
    let ended = rebuilt_by_mine(&world, TEMPLATE).await;
    let above = Epoch(later.0 + 1);
    assert_eq!(ended, Rebuilt::Open(above));
    assert_eq!(world.meta().await.epoch, above);
    world.assert_gate_equals_mysql().await;
}

/// Pauses a rebuild where it first reads `table`, runs `meanwhile` with the next epoch, and lets it continue.
async fn overtaken_at(world: &World, table: &str, meanwhile: impl AsyncFnOnce(Epoch)) -> Rebuilt {
    let mut locker = world.connection().await;
    execute(&mut locker, &format!("lock tables {table} write")).await;
    let pool = world.pool.clone();
    let gate = world.gate.clone();
    let paused = tokio::spawn(async move {
        let points = FailPoints::default();
        rebuild(&pool, &gate, &NoQueue, TEMPLATE, "paused", &points).await.unwrap()
    });
    somebody_waits_for_a_table(world).await;
    let mut connection = world.connection().await;
    let next = stock::next_epoch(&mut connection, TEMPLATE).await.unwrap().unwrap();
    meanwhile(next).await;
    execute(&mut locker, "unlock tables").await;
    paused.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_overtaken_in_mysql_only_does_not_open() {
    let world = World::open("overtaken in mysql", 10, 1).await;
    let ended = overtaken_at(&world, "coupon_template", async |_| {}).await;
    assert_eq!(ended, Rebuilt::Overtaken);
    assert_eq!(world.meta().await.phase, Phase::Loading);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_overtaken_while_it_loads_neither_writes_nor_opens() {
    let world = World::open("overtaken in the gate", 10, 1).await;
    let process = Process::start(&world, "a").await;
    process.land(&claim(USER, "a", 1)).await;
    drop(process);
    let begun = async |next| assert!(world.gate.begin(TEMPLATE, next).await.unwrap());
    let ended = overtaken_at(&world, "user_coupon", begun).await;
    assert_eq!(ended, Rebuilt::Overtaken);
    let meta = world.meta().await;
    assert_eq!((meta.phase, meta.users), (Phase::Loading, 0));
    assert_eq!(world.gate.user_count(TEMPLATE, Epoch(meta.epoch.0 - 1)).await.unwrap(), 0);
    let open = world.rebuild().await;
    assert!(open > meta.epoch);
    world.assert_gate_equals_mysql().await;
}
