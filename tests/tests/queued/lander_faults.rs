//! The lander dies or stops at each of its steps, also inside its transaction: nothing is lost or doubled.

use pipeline_tests::{
    STATE_MAX, World,
    promises::{Ends, Promises},
    until,
};

use crate::{
    claims::faults::is_stopped,
    queued::{accepted, after_gate, after_topic, arm, arm_at_once, assert_sold, shopper, two_apis},
};

/// The lander's steps with a batch, and those of its transaction.
const AROUND: [&str; 3] = ["lander.after_take", "lander.after_commit", "lander.before_offset"];
const INSIDE: [&str; 3] = ["queued.after_insert", "queued.after_guard", "queued.before_commit"];

/// The steps at which a stopped lander holds what another one needs: the stock row's lock, and only the partition.
const STOPPED_AT: [&str; 2] = ["queued.before_commit", "lander.before_offset"];

/// Users who claim around each fault.
const USERS: i64 = 4;

#[tokio::test]
async fn a_lander_killed_at_each_of_its_steps_loses_and_doubles_nothing() {
    killed("lander killed", AROUND).await;
}

#[tokio::test]
async fn a_lander_killed_at_each_step_of_its_transaction_loses_and_doubles_nothing() {
    killed("lander killed inside", INSIDE).await;
}

async fn killed(name: &str, points: [&str; 3]) {
    let mut world = World::start_queued_with(name, two_apis).await;
    let template = world.template(100, after_topic).await;
    let mut promises = Promises::default();
    let mut user = 0;
    for point in points {
        arm_at_once(&mut world.platform.lander, &format!("{point}=kill"));
        for _ in 0..USERS {
            user += 1;
            accepted(&mut promises, &shopper(&world, 0, user), template).await;
        }
        let ended = world.platform.lander.wait_exit(STATE_MAX).await;
        ended.unwrap_or_else(|error| panic!("{point}: {error}"));
        // While none runs, claims are accepted all the same.
        user += 1;
        accepted(&mut promises, &shopper(&world, 1, user), template).await;
    }
    arm(&mut world.platform.lander, "").await;
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    assert_sold(&world, template, user).await;
    world.end().await;
}

#[tokio::test]
async fn a_lander_stopped_with_a_batch_is_replaced_and_lands_nothing_twice_when_it_wakes() {
    let mut world = World::start_queued_with("lander stopped", two_apis).await;
    let template = world.template(100, after_gate).await;
    let mut another = world.platform.another_lander("claim-lander-2").unwrap();
    let mut promises = Promises::default();
    let mut user = 0;
    for point in STOPPED_AT {
        arm_at_once(&mut world.platform.lander, &format!("{point}=stop"));
        for _ in 0..USERS {
            user += 1;
            accepted(&mut promises, &shopper(&world, 0, user), template).await;
        }
        until(async || is_stopped(&world.platform.lander), |stopped| *stopped).await;
        another.spawn().unwrap();
        let count = promises.claims.len();
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count), "{point}");
        another.ready().await.unwrap();
        world.platform.lander.resume().unwrap();
        user += 1;
        accepted(&mut promises, &shopper(&world, 1, user), template).await;
        let count = promises.claims.len();
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count), "{point}");
        assert_eq!(world.count(template).await.all(), user, "{point}");
        another.stop().await.unwrap();
    }
    assert_sold(&world, template, user).await;
    world.end().await;
}

#[tokio::test]
async fn a_lander_needs_no_gate_to_land_what_was_accepted() {
    let (mut servers, mut world) = crate::claims::epochs::private_world("queued-no-gate").await;
    let template = world.template(20, after_topic).await;
    let mut promises = Promises::default();
    world.platform.lander.pause().unwrap();
    for user in 1..=10 {
        accepted(&mut promises, &shopper(&world, 0, user), template).await;
    }
    servers.gate.kill().unwrap();
    world.platform.lander.resume().unwrap();
    world.until(template, |counts| counts.all() == 10).await;
    servers.gate.start().await.unwrap();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(10));
    assert_sold(&world, template, 10).await;
    crate::claims::epochs::end(world, &mut servers).await;
}
