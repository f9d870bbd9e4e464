//! The relay dies or stops at each of its steps, or comes back with another in its place: nothing is lost or doubled.

use pipeline_tests::{
    STATE_MAX, World,
    promises::{Ends, Promises},
    until,
};

use crate::{
    claims::faults::is_stopped,
    queued::{accepted, after_gate, after_topic, arm, arm_at_once, assert_sold, shopper, two_apis},
};

/// The relay's steps with an entry.
pub(crate) const POINTS: [&str; 3] = ["relay.after_read", "relay.after_ack", "relay.after_trim"];

/// Users who claim around each fault.
const USERS: i64 = 4;

#[tokio::test]
async fn a_relay_killed_at_each_of_its_steps_loses_and_doubles_nothing() {
    devstack::quick_fault_test_of("outbox-relay");
    let mut world = World::start_queued_with("relay killed", two_apis).await;
    let template = world.template(100, after_gate).await;
    let mut promises = Promises::default();
    let mut user = 0;
    for point in POINTS {
        arm_at_once(&mut world.platform.relay, &format!("{point}=kill"));
        for _ in 0..USERS {
            user += 1;
            accepted(&mut promises, &shopper(&world, 0, user), template).await;
        }
        let ended = world.platform.relay.wait_exit(STATE_MAX).await;
        ended.unwrap_or_else(|error| panic!("{point}: {error}"));
        // Claims are accepted even while no relay runs.
        user += 1;
        accepted(&mut promises, &shopper(&world, 1, user), template).await;
    }
    arm(&mut world.platform.relay, "").await;
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    assert_sold(&world, template, user).await;
    world.end().await;
}

mod full {
    use super::*;

    /// A stopped relay holds entries in its list, until it has deleted them. Another takes them over once its lease has
    /// ended; the first, woken, publishes and deletes what it had read.
    #[tokio::test]
    async fn a_relay_stopped_at_each_of_its_steps_is_replaced_and_does_no_harm_when_it_wakes() {
        let mut world = World::start_queued_with("relay stopped", two_apis).await;
        let template = world.template(100, after_gate).await;
        let mut another = world.platform.another_relay("outbox-relay-2").unwrap();
        let mut promises = Promises::default();
        let mut user = 0;
        for point in POINTS {
            arm_at_once(&mut world.platform.relay, &format!("{point}=stop"));
            for _ in 0..USERS {
                user += 1;
                accepted(&mut promises, &shopper(&world, 0, user), template).await;
            }
            until(async || is_stopped(&world.platform.relay), |stopped| *stopped).await;
            another.spawn().unwrap();
            // Its users' claims end before the stopped one wakes.
            let count = promises.claims.len();
            assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count), "{point}");
            another.ready().await.unwrap();
            another.stop().await.unwrap();
            world.platform.relay.resume().unwrap();
            user += 1;
            accepted(&mut promises, &shopper(&world, 1, user), template).await;
            let count = promises.claims.len();
            assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count), "{point}");
        }
        assert_sold(&world, template, user).await;
        world.end().await;
    }

    #[tokio::test]
    async fn while_no_relay_runs_claims_after_the_topic_land_and_others_are_accepted() {
        let mut world = World::start_queued_with("no relay", two_apis).await;
        let topic = world.template(10, after_topic).await;
        let gate = world.template(10, after_gate).await;
        world.platform.relay.kill().unwrap();
        let mut of_topic = Promises::default();
        let mut of_gate = Promises::default();
        for user in 1..=5 {
            accepted(&mut of_topic, &shopper(&world, 0, user), topic).await;
            accepted(&mut of_gate, &shopper(&world, 1, user), gate).await;
        }
        assert_eq!(of_topic.kept(&world).await, Ends::all_succeeded(5));
        assert_eq!(world.count(gate).await.all(), 0, "nobody carries them");
        world.platform.relay.start().await.unwrap();
        assert_eq!(of_gate.kept(&world).await, Ends::all_succeeded(5));
        assert_sold(&world, topic, 5).await;
        assert_eq!(world.count(gate).await.all(), 5);
        world.end().await;
    }
}
