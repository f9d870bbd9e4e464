//! The lander dies or stops at each of its steps, also inside its transaction: nothing is lost or doubled.

use pipeline_tests::{
    STATE_MAX, World,
    promises::{Ends, Promises},
    until,
};

use crate::{
    claims::faults::{is_stopped, start_with},
    queued::{
        accepted, after_gate, after_topic, arm, arm_at_once, assert_sold, cut, decided, shopper,
        two_apis,
    },
};

/// The lander's steps with a batch, and those of its transaction. A lander that stops inside holds the stock row's
/// lock, which another one needs; around it only the partition.
const AROUND: [&str; 3] = ["lander.after_take", "lander.after_commit", "lander.before_offset"];
const INSIDE: [&str; 5] = [
    "queued.before_begin",
    "queued.after_insert",
    "queued.after_guard",
    "queued.before_commit",
    "queued.after_commit",
];

/// Its steps with claims that MySQL refuses.
const REFUSING: [&str; 2] = ["queued.before_reread", "queued.before_end"];

/// An api's steps when it tells the gate what landed, and what was refused.
const RESOLVING: [&str; 2] = ["resolver.before_settle", "resolver.before_release"];

/// An address without a gate.
const NOBODY: &str = "redis://127.0.0.1:1";

/// Users who claim around each fault.
const USERS: i64 = 4;

/// Users whose claims a cut takes the stock from.
const CUT: i64 = 2;

#[tokio::test]
async fn a_lander_killed_at_each_of_its_steps_loses_and_doubles_nothing() {
    devstack::quick_fault_test_of("claim-lander");
    killed("lander killed", AROUND).await;
}

async fn killed(name: &str, points: impl IntoIterator<Item = &str>) {
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
        // Claims are accepted even while no lander runs.
        user += 1;
        accepted(&mut promises, &shopper(&world, 1, user), template).await;
    }
    arm(&mut world.platform.lander, "").await;
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    assert_sold(&world, template, user).await;
    world.end().await;
}

async fn stopped(name: &str, points: impl IntoIterator<Item = &str>) {
    let mut world = World::start_queued_with(name, two_apis).await;
    let template = world.template(100, after_gate).await;
    let mut another = world.platform.another_lander("claim-lander-2").unwrap();
    let mut promises = Promises::default();
    let mut user = 0;
    for point in points {
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

/// How the claims of a template end that a cut took coupons from.
fn cut_short() -> Ends {
    let [landed, rejected] = [USERS, CUT].map(|count| usize::try_from(count).unwrap());
    let rejected = [("SOLD_OUT".to_owned(), rejected)].into();
    Ends { succeeded: landed, rejected, lost: 0 }
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_lander_killed_at_each_step_of_its_transaction_loses_and_doubles_nothing() {
        killed("lander killed inside", INSIDE).await;
    }

    #[tokio::test]
    async fn a_lander_stopped_with_a_batch_is_replaced_and_lands_nothing_twice_when_it_wakes() {
        stopped("lander stopped", AROUND).await;
    }

    #[tokio::test]
    async fn a_lander_stopped_inside_a_landing_is_replaced_and_lands_nothing_twice_when_it_wakes() {
        stopped("lander stopped inside", INSIDE).await;
    }

    /// The claims that a cut took the stock from: whichever process refuses them, each is refused once, and the others
    /// land.
    #[tokio::test]
    async fn a_lander_killed_or_stopped_while_it_refuses_claims_lands_and_refuses_each_once() {
        let mut world = World::start_queued_with("lander refusing", two_apis).await;
        let mut another = world.platform.another_lander("claim-lander-2").unwrap();
        for point in REFUSING {
            for action in ["kill", "stop"] {
                let fault = format!("{point}={action}");
                let template = world.template(USERS + CUT, after_topic).await;
                let mut promises = Promises::default();
                world.platform.lander.kill().unwrap();
                for user in 1..=USERS + CUT {
                    accepted(&mut promises, &shopper(&world, 0, user), template).await;
                }
                cut(&world, template, CUT).await;
                arm_at_once(&mut world.platform.lander, &fault);
                if action == "kill" {
                    let ended = world.platform.lander.wait_exit(STATE_MAX).await;
                    ended.unwrap_or_else(|error| panic!("{fault}: {error}"));
                } else {
                    until(async || is_stopped(&world.platform.lander), |stopped| *stopped).await;
                }
                another.spawn().unwrap();
                assert_eq!(promises.kept(&world).await, cut_short(), "{fault}");
                another.ready().await.unwrap();
                if action == "stop" {
                    world.platform.lander.resume().unwrap();
                }
                arm(&mut world.platform.lander, "").await;
                another.stop().await.unwrap();
                assert_eq!(promises.kept(&world).await, cut_short(), "{fault}");
                assert_eq!(decided(&world, template).await, (USERS, CUT), "{fault}");
                assert_eq!(world.count(template).await.all(), USERS, "{fault}");
            }
        }
        world.assert_sound(None).await;
        world.end().await;
    }

    #[tokio::test]
    async fn a_lander_needs_no_gate_to_land_what_was_accepted() {
        let (mut gate, mut world) =
            crate::claims::full::epochs::world_with_own_gate("queued-no-gate").await;
        let template = world.template(20, after_topic).await;
        let mut promises = Promises::default();
        world.platform.lander.pause().unwrap();
        for user in 1..=10 {
            accepted(&mut promises, &shopper(&world, 0, user), template).await;
        }
        gate.server.kill().unwrap();
        world.platform.lander.resume().unwrap();
        world.until(template, |counts| counts.all() == 10).await;
        gate.server.start().await.unwrap();
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(10));
        assert_sold(&world, template, 10).await;
        world.end().await;
    }

    /// A lander that does not reach the gate leaves its news to the apis: what landed or was refused is found in MySQL, and
    /// if the api that finds it dies or stops, by another.
    #[tokio::test]
    async fn what_a_lander_could_not_tell_the_gate_is_told_by_another_api_if_one_dies_or_stops_telling()
     {
        let mut world = World::start_queued_with("queued resolvers", two_apis).await;
        let gate = world.scope.endpoints.gate_redis_url.clone();
        start_with(&mut world.platform.lander, "GATE_REDIS_URL", NOBODY).await;
        for point in RESOLVING {
            for action in ["kill", "stop"] {
                let fault = format!("{point}={action}");
                let template = world.template(USERS + CUT, after_topic).await;
                let mut promises = Promises::default();
                world.platform.lander.pause().unwrap();
                for user in 1..=USERS + CUT {
                    accepted(&mut promises, &shopper(&world, 0, user), template).await;
                }
                cut(&world, template, CUT).await;
                arm(&mut world.platform.apis[1], &fault).await;
                // Only the api that will fall may find them.
                world.platform.apis[0].pause().unwrap();
                world.platform.lander.resume().unwrap();
                if action == "kill" {
                    let ended = world.platform.apis[1].wait_exit(STATE_MAX).await;
                    ended.unwrap_or_else(|error| panic!("{fault}: {error}"));
                } else {
                    until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;
                }
                world.platform.apis[0].resume().unwrap();
                let epoch = world.sources.gate.meta(template).await.unwrap().unwrap().epoch;
                let queued =
                    async || world.sources.gate.queued_count(template, epoch).await.unwrap();
                until(queued, |queued| *queued == 0).await;
                if action == "stop" {
                    world.platform.apis[1].resume().unwrap();
                }
                arm(&mut world.platform.apis[1], "").await;
                assert_eq!(promises.kept(&world).await, cut_short(), "{fault}");
                assert_eq!(decided(&world, template).await, (USERS, CUT), "{fault}");
            }
        }
        start_with(&mut world.platform.lander, "GATE_REDIS_URL", &gate).await;
        world.assert_sound(None).await;
        world.end().await;
    }
}
