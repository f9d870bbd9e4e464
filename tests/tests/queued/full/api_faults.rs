//! An api dies or stops between gate and answer of a queued claim: the entry is published by others, and the key has
//! one claim.

use pipeline_tests::{
    STATE_MAX, World,
    promises::{Ends, Promises},
    until,
};

use crate::{
    claims::faults::is_stopped,
    queued::{
        KEY, after_gate, after_topic, arm, assert_sold, outbox_is_empty, relay_faults::POINTS,
        shopper, two_apis,
    },
};

/// The gate has the claim, and the topic has it too.
const AFTER_GATE: &str = "claims.after_queued";
const AFTER_PUBLISH: &str = "claims.after_publish";

#[tokio::test]
async fn an_api_killed_or_stopped_before_its_202_leaves_a_claim_that_lands_once() {
    let mut world = World::start_queued_with("queued api", two_apis).await;
    let topic = world.template(20, after_topic).await;
    let gate = world.template(20, after_gate).await;
    let mut promises = Promises::default();
    let mut user = 0;
    for (template, point) in [(topic, AFTER_GATE), (topic, AFTER_PUBLISH), (gate, AFTER_GATE)] {
        for action in ["kill", "stop"] {
            arm(&mut world.platform.apis[1], &format!("{point}={action}")).await;
            user += 1;
            let anna = shopper(&world, 1, user);
            let answer = tokio::spawn(async move { anna.claim(template, Some(KEY), 1).await });
            if action == "kill" {
                world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
                answer.await.unwrap().unwrap_err();
            } else {
                until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;
            }
            // The client sends its key to another api, before and after the claim has landed.
            let found = promises.insist(&shopper(&world, 0, user), template, Some(KEY), 1).await;
            assert_eq!((found.status, found.replayed), (201, true), "{point}: {found:?}");
            if action == "stop" {
                world.platform.apis[1].resume().unwrap();
                let again = shopper(&world, 1, user);
                let again = promises.insist(&again, template, Some(KEY), 1).await;
                assert_eq!((again.status, &again.body), (201, &found.body), "{again:?}");
            }
        }
    }
    arm(&mut world.platform.apis[1], "").await;
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    assert_eq!(world.count(gate).await.all(), 2);
    assert_sold(&world, topic, 4).await;
    world.end().await;
}

/// No client comes back for the claim: the relay publishes what the dead api has not.
#[tokio::test]
async fn a_claim_whose_api_died_and_whose_client_left_lands_without_them() {
    let mut world = World::start_queued_with("queued and left", two_apis).await;
    let template = world.template(20, after_topic).await;
    arm(&mut world.platform.apis[1], &format!("{AFTER_GATE}=kill")).await;
    let anna = shopper(&world, 1, 1);
    anna.claim(template, Some(KEY), 1).await.unwrap_err();
    world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
    world.until(template, |counts| counts.all() == 1).await;
    arm(&mut world.platform.apis[1], "").await;
    let again = shopper(&world, 1, 1).claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!((again.status, again.replayed), (201, true), "{again:?}");
    assert_sold(&world, template, 1).await;
    world.end().await;
}

/// The relay that must publish what a dead api has left dies too: before it has published, before it has deleted the
/// entry, and after.
#[tokio::test]
async fn a_claim_whose_api_died_lands_once_though_the_relay_dies_over_it() {
    let mut world = World::start_queued_with("queued api and relay", two_apis).await;
    let template = world.template(20, after_topic).await;
    let mut users = 0;
    for point in POINTS {
        for action in ["kill", "stop"] {
            let fault = format!("{point}={action}");
            users += 1;
            arm(&mut world.platform.relay, &fault).await;
            arm(&mut world.platform.apis[1], &format!("{AFTER_GATE}=kill")).await;
            shopper(&world, 1, users).claim(template, Some(KEY), 1).await.unwrap_err();
            world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
            if action == "kill" {
                let ended = world.platform.relay.wait_exit(STATE_MAX).await;
                ended.unwrap_or_else(|error| panic!("{fault}: {error}"));
            } else {
                until(async || is_stopped(&world.platform.relay), |stopped| *stopped).await;
            }
            let sent = if point == "relay.after_read" { users - 1 } else { users };
            world.until(template, |counts| counts.all() == sent).await;
            if action == "stop" {
                world.platform.relay.resume().unwrap();
            } else {
                arm(&mut world.platform.relay, "").await;
            }
            world.until(template, |counts| counts.all() == users).await;
            outbox_is_empty(&world, template).await;
        }
    }
    arm(&mut world.platform.apis[1], "").await;
    for user in 1..=users {
        let again = shopper(&world, 1, user).claim(template, Some(KEY), 1).await.unwrap();
        assert_eq!((again.status, again.replayed), (201, true), "{user}: {again:?}");
    }
    assert_sold(&world, template, users).await;
    world.end().await;
}
