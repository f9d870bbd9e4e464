//! The keeper: which gates it loads, and when it reloads them.

use chrono::TimeDelta;
use coupon::{Epoch, TemplateState};
use landing::gates::PRELOAD;
use mysql_store::template;
use redis_gate::Phase;
use testkit::until_true;

use crate::harness::{Process, TEMPLATE, World, now, template as published};

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_loads_what_is_not_loaded_and_rebuilds_what_is_reported_wrong() {
    let world = World::without_gate("keeper", 10, 1).await;
    let process = Process::start(&world, "a").await;
    until_true(async || process.gates.known(TEMPLATE) > Epoch::UNKNOWN).await;
    let first = world.meta().await;
    assert_eq!((first.phase, first.stock), (Phase::Open, 10));
    process.gates.report_wrong(TEMPLATE, Epoch(first.epoch.0 - 1));
    process.gates.next_look().await;
    assert_eq!(world.meta().await.epoch, first.epoch, "an older epoch's fault is mended already");
    process.gates.report_wrong(TEMPLATE, first.epoch);
    until_true(async || world.meta().await.epoch > first.epoch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_left_loading_or_behind_mysql_is_found_without_any_claim() {
    let world = World::open("left loading", 10, 1).await;
    let left = world.meta().await.epoch;
    // A rebuilder that died halfway.
    let mut connection = world.connection().await;
    let epoch = mysql_store::stock::next_epoch(&mut connection, TEMPLATE).await.unwrap().unwrap();
    assert!(world.gate.begin(TEMPLATE, epoch).await.unwrap());
    let _process = Process::start(&world, "a").await;
    let open = async || {
        let meta = world.meta().await;
        meta.phase == Phase::Open && meta.epoch > epoch
    };
    until_true(open).await;
    assert!(world.meta().await.epoch > left);
    world.assert_gate_equals_mysql().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_keepers_of_a_lost_gate_end_with_one_that_equals_mysql() {
    let world = World::open("two keepers", 10, 1).await;
    let one = Process::start(&world, "a").await;
    let other = Process::start(&world, "b").await;
    for _ in 0..3 {
        world.lose_gate().await;
        one.gates.ask_look(TEMPLATE);
        other.gates.ask_look(TEMPLATE);
        let open = async || {
            let meta = world.gate.meta(TEMPLATE).await.unwrap();
            meta.is_some_and(|meta| meta.phase == Phase::Open)
        };
        until_true(open).await;
        one.gates.next_look().await;
        other.gates.next_look().await;
        world.assert_gate_equals_mysql().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_template_is_shown_by_its_gate() {
    let world = World::open("show", 10, 1).await;
    let process = Process::start(&world, "a").await;
    let before = world.meta().await;
    world.change_state(TEMPLATE, TemplateState::Paused).await;
    let paused = template::get(&mut world.connection().await, TEMPLATE).await.unwrap().unwrap();
    for _ in 0..2 {
        assert!(process.gates.show(&paused).await.unwrap());
        let meta = world.meta().await;
        assert_eq!((meta.phase, meta.version), (Phase::Open, paused.version));
        assert_eq!(meta.epoch, before.epoch, "it needs no new epoch");
    }
    world.lose_gate().await;
    assert!(!process.gates.send_state(&paused).await.unwrap(), "there is nobody to be notified");
    assert!(process.gates.show(&paused).await.unwrap());
    assert!(world.meta().await.epoch > before.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_is_wanted_from_before_the_window_to_its_end() {
    let world = World::without_gate("wanted", 10, 1).await;
    let gates = Process::start(&world, "a").await.gates.clone();
    let template = published(TEMPLATE, 1);
    let tick = TimeDelta::milliseconds(1);
    let opens = template.window.starts_at - PRELOAD;
    for (at, wanted) in [
        (opens - tick, false),
        (opens, true),
        (now(), true),
        (template.window.ends_at - tick, true),
        (template.window.ends_at, false),
    ] {
        assert_eq!(gates.wants(&template, at), wanted, "{at}");
    }
    for (state, wanted) in [
        (TemplateState::Draft, false),
        (TemplateState::Paused, true),
        (TemplateState::Ended, false),
    ] {
        assert_eq!(gates.wants(&coupon::Template { state, ..template.clone() }, now()), wanted);
    }
}
