//! Single checks of the keeper: what it repairs in place, rebuilds and unloads.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{Claim, Epoch, RequestId, TemplateId, TemplateState, UserId};
use landing::{
    claims::{Answer, Unavailable},
    gates::{Gates, PRELOAD},
    keeper::Keeper,
    queue::NoQueue,
};
use mysql_store::{
    stock::{self, Moved, NewMovement},
    template_edit::{self, Edited},
};
use redis_gate::{Phase, QueueOptions, Refusal, Verdict};
use runtime::FailPoints;
use testkit::until_true;

use crate::harness::{
    Process, TEMPLATE, USER, World, claim, execute, now, somebody_waits_for_a_table, template,
};

/// A keeper that unloads at once and checks only when called.
fn keeper(world: &World) -> (Gates, Keeper) {
    keeper_with(world, FailPoints::default())
}

fn keeper_with(world: &World, points: FailPoints) -> (Gates, Keeper) {
    let (gates, mut keeper) = Gates::new(
        world.pool.clone(),
        world.gate.clone(),
        Arc::new(NoQueue),
        "keeper",
        PRELOAD,
        points,
    );
    keeper.unload_after = Duration::ZERO;
    (gates, keeper)
}

/// Moves the stock in MySQL only.
pub(crate) async fn move_stock(world: &World, key: &str, delta: i64) {
    let request_id = RequestId::from_client(key).unwrap();
    let new = NewMovement { request_id: &request_id, delta, reason: "why", actor: "who" };
    let mut connection = world.connection().await;
    let moved = stock::add_movement(&mut connection, TEMPLATE, &new, now()).await.unwrap();
    assert!(matches!(moved, Moved::Recorded(_)), "{moved:?}");
}

async fn look(keeper: &mut Keeper, now: DateTime<Utc>) {
    keeper.look(now).await.unwrap();
}

async fn is_loaded(world: &World) -> bool {
    world.gate.meta(TEMPLATE).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn movements_that_the_gate_has_not_heard_of_are_applied_in_place() {
    let world = World::open("missed movements", 10, 1).await;
    let (gates, mut keeper) = keeper(&world);
    let epoch = world.meta().await.epoch;
    for (key, delta) in [("a", 5), ("b", -12), ("c", 4)] {
        move_stock(&world, key, delta).await;
    }
    look(&mut keeper, now()).await;
    let meta = world.meta().await;
    assert_eq!((meta.stock, meta.movement, meta.epoch), (7, 4, epoch));
    move_stock(&world, "d", 1).await;
    for _ in 0..2 {
        gates.catch_up(TEMPLATE).await.unwrap();
        look(&mut keeper, now()).await;
    }
    assert_eq!(world.meta().await.movement, 5);
    world.assert_gate_equals_mysql().await;
}

/// A downgrade or a manual change may cause this. A rebuild reads the stock, and needs no movements.
#[tokio::test(flavor = "multi_thread")]
async fn a_movement_that_is_missing_or_cannot_be_read_brings_a_new_epoch_and_not_a_frozen_gate() {
    for damage in ["update stock_movement set kind = 99", "delete from stock_movement"] {
        let world = World::open("damaged movement", 10, 1).await;
        let (gates, mut keeper) = keeper(&world);
        let epoch = world.meta().await.epoch;
        move_stock(&world, "a", 5).await;
        move_stock(&world, "b", 2).await;
        world.execute(&format!("{damage} where template_id = {TEMPLATE} and seq = 2")).await;
        assert!(gates.catch_up(TEMPLATE).await.is_err(), "the gate was not told");
        look(&mut keeper, now()).await;
        let meta = world.meta().await;
        assert!((meta.stock, meta.movement) == (17, 3) && meta.epoch > epoch, "{meta:?}");
        move_stock(&world, "c", 1).await;
        let epoch = meta.epoch;
        look(&mut keeper, now()).await;
        let meta = world.meta().await;
        assert_eq!((meta.stock, meta.movement, meta.epoch), (18, 4, epoch), "in place again");
    }
}

/// Such a row stops neither the keeper nor the resolver.
#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_cannot_be_read_keeps_no_other_gate_from_being_kept() {
    let world = World::open("unreadable template", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    let other = TemplateId(TEMPLATE.0 + 1);
    world.publish(other, 5, 1).await;
    world.execute(&format!("update coupon_template set claim_mode = 99 where id = {other}")).await;
    let process = Process::without_keeper(&world, "a").await;
    let died = claim(USER, "a", 1);
    let epoch = world.meta().await.epoch;
    world.gate.claim(&died, epoch, now(), QueueOptions::direct()).await.unwrap();
    assert_eq!(world.resolve().await.released, 1);
    world.lose_gate().await;
    look(&mut keeper, now()).await;
    process.land(&claim(USER, "b", 1)).await;
}

/// The user is asked to retry; a new epoch reads the entry from MySQL.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_cannot_be_read_stops_nobody_else_and_is_read_anew_at_the_next_look() {
    let world = World::open("unreadable entry", 10, 2).await;
    let (_gates, mut keeper) = keeper(&world);
    let process = Process::without_keeper(&world, "a").await;
    process.land(&claim(USER, "a", 1)).await;
    world.settled().await;
    world.damage_entry(USER).await;
    let answer = process.claim(&claim(USER, "b", 1)).await;
    assert_eq!(answer, Answer::Unavailable(Unavailable::GateLoading));
    process.land(&claim(UserId(71), "a", 1)).await;
    world.settled().await;
    look(&mut keeper, now()).await;
    world.assert_gate_equals_mysql().await;
    process.land(&claim(USER, "b", 1)).await;
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_in_flight_key_of_another_type_takes_no_stock_and_is_gone_at_the_next_look() {
    let world = World::open("in flight replaced", 10, 2).await;
    let (_gates, mut keeper) = keeper(&world);
    let epoch = world.meta().await.epoch;
    world.replace_in_flight().await;
    let refused =
        world.gate.claim(&claim(USER, "a", 1), epoch, now(), QueueOptions::direct()).await;
    assert!(refused.is_err_and(|error| error.is_of_keys()));
    assert_eq!(world.meta().await.stock, 10);
    look(&mut keeper, now()).await;
    assert!(world.meta().await.epoch > epoch);
    // The process lives until its admission is settled.
    let process = Process::without_keeper(&world, "a").await;
    process.land(&claim(USER, "a", 1)).await;
    world.settled().await;
    world.assert_gate_equals_mysql().await;
}

/// Redis refuses its claims, and no relay sees it.
#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_of_another_type_takes_no_stock_and_is_gone_at_the_next_look() {
    let world = World::without_gate("outbox replaced", 10, 2).await;
    world.execute("update coupon_template set claim_mode = 1").await;
    let epoch = world.rebuild().await;
    let (_gates, mut keeper) = keeper(&world);
    world.replace_outbox().await;
    let refused =
        world.gate.claim(&claim(USER, "a", 1), epoch, now(), QueueOptions::direct()).await;
    assert!(refused.is_err_and(|error| error.is_of_keys()));
    assert_eq!(world.meta().await.stock, 10);
    look(&mut keeper, now()).await;
    let after = world.meta().await.epoch;
    assert!(after > epoch);
    let verdict =
        world.gate.claim(&claim(USER, "a", 1), after, now(), QueueOptions::direct()).await;
    assert!(matches!(verdict, Ok(Verdict::Queued { .. })), "{verdict:?}");
}

/// This is how a process of a version without queues rebuilds a gate.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_gate_gets_the_epoch_of_what_it_queues_or_begins_anew() {
    let world = World::open("queued epoch behind", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    let epoch = world.meta().await.epoch;
    let queued_epoch = "select queued_epoch from template_stock";
    world.execute("update template_stock set queued_epoch = epoch - 1").await;
    look(&mut keeper, now()).await;
    assert_eq!(world.number(queued_epoch).await, epoch.0);
    assert_eq!(world.meta().await.epoch, epoch, "nothing was queued before it");
    // What an older gate has queued must land first.
    let queued = "update template_stock set queued_epoch = epoch - 1, ever_queued = 1";
    world.execute(queued).await;
    look(&mut keeper, now()).await;
    until_true(async || world.meta().await.is_open()).await;
    let after = world.meta().await.epoch;
    assert!(after > epoch);
    assert_eq!(world.number(queued_epoch).await, after.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_in_flight_keeps_no_other_from_being_ended_and_is_gone_at_the_next_look()
 {
    let world = World::open("unreadable in flight", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    let epoch = world.meta().await.epoch;
    world.gate.claim(&claim(USER, "a", 1), epoch, now(), QueueOptions::direct()).await.unwrap();
    for member in ["garbage", ":", "x:70", ""] {
        world.damage_in_flight(member).await;
    }
    assert_eq!(world.resolver().look(now()).await.unwrap().released, 1);
    assert_eq!(world.rows().await.fences, 1);
    look(&mut keeper, now()).await;
    assert!(world.meta().await.epoch > epoch);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilder_that_died_after_its_bump_is_replaced_at_the_next_look() {
    let world = World::open("bumped", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    let bumped = stock::next_epoch(&mut world.connection().await, TEMPLATE).await.unwrap();
    look(&mut keeper, now()).await;
    let meta = world.meta().await;
    assert!(meta.is_open() && Some(meta.epoch) > bumped, "{meta:?} after {bumped:?}");
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_another_process_has_opened_meanwhile_is_not_closed_again() {
    let world = World::without_gate("opened meanwhile", 10, 1).await;
    let points = FailPoints::default();
    let (_gates, mut keeper) = keeper_with(&world, points.clone());
    let mut held = points.hold("rebuild.before_lease");
    let late = tokio::spawn(async move { look(&mut keeper, now()).await });
    held.reached(1).await;
    let published = world.rebuild().await;
    held.let_go();
    late.await.unwrap();
    let stock = stock::get(&mut world.connection().await, TEMPLATE).await.unwrap().unwrap();
    assert_eq!((world.meta().await.epoch, stock.epoch), (published, published));
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn movements_made_by_many_at_once_are_in_the_gate_once_each() {
    let world = World::open("movements at once", 0, 1).await;
    let movers = (0..16).map(|n| {
        let world = &world;
        let key = format!("key-{n}");
        async move {
            let (gates, _keeper) = keeper(world);
            move_stock(world, &key, 3).await;
            gates.catch_up(TEMPLATE).await.unwrap();
        }
    });
    futures::future::join_all(movers).await;
    let meta = world.meta().await;
    assert_eq!((meta.stock, meta.movement), (48, 17));
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cut_leaves_short_brings_no_new_epoch() {
    let world = World::open("cut", 3, 1).await;
    let process = Process::without_keeper(&world, "a").await;
    let (_gates, mut keeper) = keeper(&world);
    process.land(&claim(USER, "a", 1)).await;
    world.settled().await;
    let epoch = world.meta().await.epoch;
    // The gate still has two coupons that MySQL no longer has.
    move_stock(&world, "cut", -2).await;
    let late = claim(UserId(71), "a", 1);
    assert_eq!(process.claim(&late).await, Answer::Refused(Refusal::SoldOut));
    assert_eq!(world.meta().await.stock, 2, "given back");
    look(&mut keeper, now()).await;
    look(&mut keeper, now()).await;
    let meta = world.meta().await;
    assert_eq!((meta.stock, meta.epoch), (0, epoch));
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_below_what_is_in_flight_is_no_fault_either() {
    let world = World::open("cut in flight", 5, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    let epoch = world.meta().await.epoch;
    let admitted: Vec<_> = (0..4).map(|user| claim(UserId(user), "a", 1)).collect();
    for claim in &admitted {
        let verdict = world.gate.claim(claim, epoch, now(), QueueOptions::direct()).await.unwrap();
        assert!(matches!(verdict, Verdict::Admitted { .. }), "{verdict:?}");
    }
    move_stock(&world, "cut", -3).await;
    look(&mut keeper, now()).await;
    look(&mut keeper, now()).await;
    let meta = world.meta().await;
    assert_eq!((meta.stock, meta.epoch), (-2, epoch));
    for claim in &admitted {
        world.gate.release(TEMPLATE, epoch, claim.user_id, claim.id).await.unwrap();
    }
    look(&mut keeper, now()).await;
    assert_eq!(world.meta().await.epoch, epoch);
    world.gate.entries(TEMPLATE, epoch).await.unwrap();
    assert_eq!(world.meta().await.stock, world.left().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_promises_more_than_there_is_is_rebuilt_unasked() {
    let world = World::open("promises", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    look(&mut keeper, now()).await;
    let epoch = world.meta().await.epoch;
    world.execute("update template_stock set stock = stock - 1, total = total - 1").await;
    look(&mut keeper, now()).await;
    let meta = world.meta().await;
    assert!(meta.epoch > epoch);
    assert_eq!(meta.stock, 9);
    look(&mut keeper, now()).await;
    assert_eq!(world.meta().await.epoch, meta.epoch, "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_the_gate_did_not_learn_is_repaired_in_place() {
    let world = World::open("missed state", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    let epoch = world.meta().await.epoch;
    let ask = async || {
        world.gate.claim(&claim(USER, "a", 1), epoch, now(), QueueOptions::direct()).await.unwrap()
    };
    world.change_state(TEMPLATE, TemplateState::Paused).await;
    look(&mut keeper, now()).await;
    let paused = Verdict::Refused { refusal: Refusal::Paused, look_in_mysql: false };
    assert_eq!(ask().await, paused);
    world.change_state(TEMPLATE, TemplateState::Published).await;
    look(&mut keeper, now()).await;
    assert!(matches!(ask().await, Verdict::Admitted { .. }));
    assert_eq!(world.meta().await.epoch, epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_a_gate_loads_is_in_it_when_it_is_open() {
    let world = World::open("while loading", 10, 5).await;
    let process = Process::without_keeper(&world, "a").await;
    process.land(&claim(USER, "a", 1)).await;
    world.settled().await;
    // The rebuild has read template and stock, and waits for the numbers.
    let mut locker = world.connection().await;
    execute(&mut locker, "lock tables user_coupon write").await;
    let pool = world.pool.clone();
    let gate = world.gate.clone();
    let rebuilding = tokio::spawn(async move {
        let points = FailPoints::default();
        landing::rebuild::rebuild(&pool, &gate, &NoQueue, TEMPLATE, "slow", &points).await.unwrap()
    });
    somebody_waits_for_a_table(&world).await;
    move_stock(&world, "up", 7).await;
    process.gates.catch_up(TEMPLATE).await.unwrap();
    world.change_state(TEMPLATE, TemplateState::Paused).await;
    let paused = current(&world).await;
    assert!(!process.gates.send_state(&paused).await.unwrap(), "not loaded yet");
    execute(&mut locker, "unlock tables").await;
    rebuilding.await.unwrap();
    let meta = world.meta().await;
    assert_eq!((meta.stock, meta.movement, meta.version), (16, 2, paused.version));
    let verdict = world
        .gate
        .claim(&claim(UserId(71), "a", 1), meta.epoch, now(), QueueOptions::direct())
        .await
        .unwrap();
    let refused = Verdict::Refused { refusal: Refusal::Paused, look_in_mysql: false };
    assert_eq!(verdict, refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_moved_lets_nothing_land_by_the_old_one_and_loads_the_gate_anew() {
    let world = World::open("moved window", 10, 1).await;
    let process = Process::without_keeper(&world, "a").await;
    let epoch = world.meta().await.epoch;
    process.land(&claim(USER, "a", 1)).await;
    world.settled().await;
    let before = current(&world).await;
    let mut after = before.clone();
    after.name.push('!');
    let mut connection = world.connection().await;
    let edited = template_edit::edit(&mut connection, &before, &after, false, now()).await.unwrap();
    assert_eq!(edited, Edited::Done);
    assert!(process.gates.bring_up(TEMPLATE).await.unwrap());
    assert_eq!(world.meta().await.epoch, epoch, "the gate knows nothing of a name");

    let before = current(&world).await;
    let mut after = before.clone();
    after.window.ends_at = now();
    let edited = template_edit::edit(&mut connection, &before, &after, false, now()).await.unwrap();
    assert_eq!(edited, Edited::Done);
    // The gate does not know of the change and admits; MySQL refuses.
    let late = claim(UserId(71), "a", 1);
    assert_eq!(process.claim(&late).await, Answer::Unavailable(Unavailable::GateLoading));
    // A process that dies after the edit does not update the gate either; a keeper finds that.
    let (gates, mut keeper) = keeper(&world);
    look(&mut keeper, now() - TimeDelta::seconds(1)).await;
    assert!(world.meta().await.epoch > epoch);
    assert!(gates.bring_up(TEMPLATE).await.unwrap());
    let verdict = world
        .gate
        .claim(&late, world.meta().await.epoch, now(), QueueOptions::direct())
        .await
        .unwrap();
    let refused = Verdict::Refused { refusal: Refusal::Closed, look_in_mysql: false };
    assert_eq!(verdict, refused);
    assert_eq!(world.left().await, 9);
    world.assert_gate_equals_mysql().await;
}

async fn current(world: &World) -> coupon::Template {
    let mut connection = world.connection().await;
    mysql_store::template::get(&mut connection, TEMPLATE).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_of_an_ended_template_goes_once_nothing_is_in_flight() {
    let world = World::open("ended", 10, 1).await;
    let (gates, mut keeper) = keeper(&world);
    let epoch = world.meta().await.epoch;
    let admitted = claim(USER, "a", 1);
    world.gate.claim(&admitted, epoch, now(), QueueOptions::direct()).await.unwrap();
    world.change_state(TEMPLATE, TemplateState::Ended).await;
    gates.send_state(&current(&world).await).await.unwrap();
    for _ in 0..2 {
        look(&mut keeper, now()).await;
        assert!(is_loaded(&world).await, "an admission is in flight");
    }
    let released = world.gate.release(TEMPLATE, epoch, USER, admitted.id).await.unwrap();
    assert_eq!(released, Some(true));
    look(&mut keeper, now()).await;
    assert!(!is_loaded(&world).await);
    for _ in 0..2 {
        look(&mut keeper, now()).await;
        assert!(!is_loaded(&world).await, "it is not loaded again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_did_not_learn_of_the_end_goes_too() {
    let world = World::open("ended unnoticed", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    world.change_state(TEMPLATE, TemplateState::Ended).await;
    look(&mut keeper, now()).await;
    assert!(!is_loaded(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_lives_from_before_its_window_to_its_end() {
    let world = World::without_gate("window", 10, 1).await;
    let (_gates, mut keeper) = keeper(&world);
    let window = template(TEMPLATE, 1).window;
    let tick = TimeDelta::milliseconds(1);
    let opens = window.starts_at - PRELOAD;
    for (at, loaded) in [
        (opens - tick, false),
        (opens, true),
        (window.ends_at - tick, true),
        (window.ends_at, false),
        (window.ends_at + TimeDelta::hours(1), false),
    ] {
        look(&mut keeper, at).await;
        assert_eq!(is_loaded(&world).await, loaded, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_is_loaded_as_early_as_asked_for() {
    let world = World::without_gate("early", 10, 1).await;
    let hour = Duration::from_hours(1);
    let pool = world.pool.clone();
    let gate = world.gate.clone();
    let (_gates, mut keeper) =
        Gates::new(pool, gate, Arc::new(NoQueue), "early", hour, FailPoints::default());
    let opens = template(TEMPLATE, 1).window.starts_at - hour;
    look(&mut keeper, opens - TimeDelta::milliseconds(1)).await;
    assert!(!is_loaded(&world).await);
    look(&mut keeper, opens).await;
    assert!(is_loaded(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_was_forgotten_loaded_is_found_in_redis_and_goes_with_what_was_in_flight() {
    let world = World::open("forgotten", 10, 1).await;
    let epoch = world.meta().await.epoch;
    world.gate.claim(&claim(USER, "a", 1), epoch, now(), QueueOptions::direct()).await.unwrap();
    let ends_at = template(TEMPLATE, 1).window.ends_at;
    // A day after its end the template leaves MySQL's list; no process was running to unload it.
    for (days, loaded, fences) in [(1, true, 0), (2, false, 1)] {
        // A newly started keeper scans Redis.
        let (_gates, mut keeper) = keeper(&world);
        look(&mut keeper, ends_at + TimeDelta::days(days) - TimeDelta::milliseconds(1)).await;
        assert_eq!(
            (is_loaded(&world).await, world.rows().await.fences),
            (loaded, fences),
            "{days}"
        );
    }
    assert!(world.gate.templates().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_stays_for_a_while_after_its_end() {
    let world = World::open("stays", 10, 1).await;
    let (_gates, mut keeper) = Gates::new(
        world.pool.clone(),
        world.gate.clone(),
        Arc::new(NoQueue),
        "patient",
        PRELOAD,
        FailPoints::default(),
    );
    world.change_state(TEMPLATE, TemplateState::Ended).await;
    for _ in 0..3 {
        look(&mut keeper, now()).await;
    }
    assert!(is_loaded(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_for_a_gate_that_is_not_wanted_loads_none() {
    let world = World::without_gate("not wanted", 10, 1).await;
    let process = Process::start(&world, "a").await;
    let ended = TemplateId(11);
    let draft = TemplateId(12);
    world.publish(ended, 10, 1).await;
    world.change_state(ended, TemplateState::Ended).await;
    let mut connection = world.connection().await;
    let state = TemplateState::Draft;
    let new = coupon::Template { state, version: 1, ..template(draft, 1) };
    mysql_store::template::create(&mut connection, &new, 10, "test", now()).await.unwrap();
    for id in [ended, draft] {
        process.gates.ask_look(id);
        process.gates.report_wrong(id, Epoch(1));
        process.gates.next_look().await;
        assert_eq!(world.gate.meta(id).await.unwrap(), None);
    }
    until_true(async || {
        let meta = world.gate.meta(TEMPLATE).await.unwrap();
        meta.is_some_and(|meta| meta.phase == Phase::Open)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_holds_too_little_is_rebuilt_once_it_is_certain_and_a_busy_one_is_not() {
    let world = World::open("too little", 20, 5).await;
    let process = Process::without_keeper(&world, "a").await;
    let (_gates, mut keeper) = keeper(&world);
    // Admitted and not landed: the gate has less stock than MySQL, but lacks nothing.
    let mut held = process.points.hold("claims.after_gate");
    let answer = process.begin(&claim(USER, "a", 5));
    held.reached(1).await;
    for _ in 0..2 {
        look(&mut keeper, now()).await;
        assert_eq!(keeper.missing(), 0);
    }
    held.let_go();
    assert!(matches!(answer.await.unwrap(), Answer::Landed { .. }));
    world.settled().await;
    move_stock(&world, "more", 5).await;
    look(&mut keeper, now()).await;
    look(&mut keeper, now()).await;
    assert_eq!(keeper.missing(), 0);

    let client = redis::Client::open(world.gate_url.as_str()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let metas: Vec<String> = redis::cmd("KEYS")
        .arg(format!("{}*:meta", world.prefix))
        .query_async(&mut redis)
        .await
        .unwrap();
    let [meta] = &metas[..] else { panic!("{metas:?}") };
    let _: i64 =
        redis::cmd("HINCRBY").arg(meta).arg("stock").arg(-3).query_async(&mut redis).await.unwrap();
    look(&mut keeper, now()).await;
    look(&mut keeper, now()).await;
    assert_eq!(keeper.missing(), 3);
    look(&mut keeper, now()).await;
    assert_eq!(keeper.missing(), 0);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_was_prolonged_is_not_called_closed_by_an_old_template_or_an_old_gate() {
    let world = World::open("prolonged", 10, 1).await;
    let process = Process::without_keeper(&world, "a").await;
    let before = current(&world).await;
    let mut after = before.clone();
    after.window.ends_at += TimeDelta::hours(3);
    let mut connection = world.connection().await;
    let edited = template_edit::edit(&mut connection, &before, &after, false, now()).await.unwrap();
    assert_eq!(edited, Edited::Done);
    // This process has the old template, and the gate the old window.
    let claimed_at = before.window.ends_at + TimeDelta::minutes(1);
    process.clock.set(claimed_at);
    let (_gates, mut keeper) = keeper(&world);
    let late = Claim { claimed_at, ..claim(USER, "a", 1) };
    assert_eq!(process.claim(&late).await, Answer::Unavailable(Unavailable::GateLoading));
    look(&mut keeper, claimed_at).await;
    process.land(&late).await;
    // A window is over when MySQL says so.
    let claimed_at = after.window.ends_at;
    process.clock.set(claimed_at);
    let refused = Answer::Refused(Refusal::Closed);
    let too_late = Claim { claimed_at, ..claim(UserId(71), "a", 1) };
    assert_eq!(process.claim(&too_late).await, refused);
    assert_eq!(world.number("select count(*) from user_coupon").await, 1);
}
