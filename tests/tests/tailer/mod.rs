//! One of several tailers leads: which one, how long, and what happens to a leader that resumes too late.

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod brokers;
    pub(crate) mod campaign;
    pub(crate) mod files;
    pub(crate) mod leaders;
    pub(crate) mod outages;
    pub(crate) mod refused;
    pub(crate) mod resets;
    pub(crate) mod servers;
    pub(crate) mod snapshot;
}

use std::time::Duration;

use coupon::UserId;
use devstack::Process;
use pipeline_tests::{
    World, histories,
    tail::{Tail, log, until_leading, until_standby},
    until,
};
use shopper::Wish;
use tokio::time::sleep;

#[tokio::test]
async fn of_several_tailers_one_leads_and_another_takes_over_in_seconds_when_it_is_killed() {
    devstack::quick_fault_test_of("cdc-tailer");
    let mut tail = Tail::on_shared_servers("leads").await;
    tail.lead().await;
    let mut standbys = [standby(&tail, "second").await, standby(&tail, "third").await];
    tail.insert(1..=100);
    tail.until_complete().await;
    assert_eq!(tail.count().await, 100, "standbys publish nothing");
    tail.tailer().kill().unwrap();
    tail.insert(101..=200);
    tail.until_complete().await;
    let leaders = async || {
        let mut leaders = 0;
        for standby in &standbys {
            leaders += u8::from(!log(standby).is_empty() && leads(standby).await);
        }
        leaders
    };
    until(leaders, |leaders| *leaders == 1).await;
    // A leader that stops in order gives up its leadership at once.
    for standby in &mut standbys {
        if leads(standby).await {
            assert!(standby.stop().await.unwrap().unwrap().success());
        }
    }
    tail.insert(201..=300);
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

/// Runs waves of claims while the leader is stopped for `silence`, and one more when it is back.
async fn stopped_under_load(silence: Duration, waves: i64) {
    const USERS: i64 = 150;
    let mut world = World::start("stoppedleader").await;
    until_leading(&world.platform.cdc_tailer).await;
    let mut second = world.platform.another_tailer("cdc-tailer-2").unwrap();
    second.start().await.unwrap();
    until_standby(&second).await;
    let template = world.template(USERS * (waves + 1), |new| new).await;
    world.warm_views((1..=USERS * waves).step_by(5)).await;
    let mut runs = Vec::new();
    for wave in 0..=waves {
        if wave == 1 {
            world.platform.cdc_tailer.pause().unwrap();
        }
        if wave == waves {
            until_leading(&second).await;
            world.platform.cdc_tailer.resume().unwrap();
        }
        let users = wave * USERS + 1..=(wave + 1) * USERS;
        let wishes = users.map(|user| Wish::one(template, UserId(user))).collect();
        runs.push(world.crowd().run(wishes).await.unwrap());
        if (1..waves).contains(&wave) {
            sleep(silence / u32::try_from(waves - 1).unwrap()).await;
        }
    }
    let fenced = async || log(&world.platform.cdc_tailer);
    until(fenced, |text| text.contains("fenced: another")).await;
    until_standby(&world.platform.cdc_tailer).await;
    until_leading(&second).await;
    world.assert_sound(Some(&histories(runs))).await;
    second.stop().await.unwrap();
    until_leading(&world.platform.cdc_tailer).await;
    world.end().await;
}

async fn standby(tail: &Tail, name: &str) -> Process {
    let mut standby = tail.platform.another_tailer(name).unwrap();
    standby.start().await.unwrap();
    until_standby(&standby).await;
    standby
}

async fn leads(process: &Process) -> bool {
    process.metric("cdc_tailer_leads").await == Some(1.0)
}
