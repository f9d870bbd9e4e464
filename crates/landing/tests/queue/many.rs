//! Many templates that wait for their queues at once, because the broker does not answer.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use coupon::{AcceptAfter, Claim, TemplateId, TemplateState};
use landing::gates::{Gates, PRELOAD};
use mysql_store::template;
use runtime::FailPoints;
use testkit::{until, until_true};

use super::{Chain, Silent};
use crate::harness::{USER, claim, now};

/// Queues that one process looks at concurrently.
const LOOKS: u64 = 32;

/// Queues that one process closes concurrently.
const CLOSINGS: i64 = 100;

/// Queued templates that have ended.
const ENDED: i64 = CLOSINGS + 5;

#[tokio::test(flavor = "multi_thread")]
async fn many_queues_of_a_silent_broker_are_looked_at_in_turn_under_leases_that_stay() {
    let chain = Chain::queued("many drains", AcceptAfter::Gate).await;
    let world = &chain.world;
    let direct = TemplateId(5);
    world.publish(direct, 10, 1).await;
    world.rebuild_gate_of(direct).await;
    for id in 100..100 + ENDED {
        world.publish(TemplateId(id), 10, 1).await;
    }
    let ended = TemplateState::Ended.code();
    world.execute(&format!("update coupon_template set state = {ended} where id >= 100")).await;
    world.execute("update template_stock set ever_queued = 1 where template_id >= 100").await;
    let silent = Arc::new(Silent::default());
    let pool = world.pool.clone();
    let gate = world.gate.clone();
    let points = FailPoints::default();
    let (_gates, mut keeper) = Gates::new(pool, gate, silent.clone(), "closes", PRELOAD, points);
    keeper.unload_after = Duration::ZERO;
    for _ in 0..2 {
        keeper.look(now()).await.unwrap();
    }
    let begun = "select count(*) from lease where holder = 'closes' and name like 'rebuild:%'";
    assert_eq!(world.number(begun).await, CLOSINGS);

    let looks = || silent.looks.load(Ordering::Relaxed);
    until(async || looks(), |looks| *looks >= LOOKS).await;
    let until_when = |which: &str| {
        format!(
            "select cast(1000 * unix_timestamp({which}(until)) as signed) from lease \
             where holder = 'closes' and name like 'rebuild:%'"
        )
    };
    let last = world.number(&until_when("max")).await;
    until_true(async || world.number(&until_when("min")).await > last).await;
    assert_eq!(looks(), LOOKS, "the others wait for their turn");

    let process = chain.process("a").await;
    let template = template::get(&mut world.connection().await, direct).await.unwrap().unwrap();
    let landed = Claim { template_id: direct, ..claim(USER, "a", 1) };
    process.claims.claim(Arc::new(template), landed).await;
    assert_eq!(world.rows().await.landed, 1);

    // An operator ends all these waits.
    let given_up = "update template_stock set queued_epoch = epoch where template_id >= 100";
    world.execute(given_up).await;
    let closed = "select count(*) from template_stock where queue_closed = 1";
    until(async || world.number(closed).await, |closed| *closed == CLOSINGS).await;
    keeper.look(now()).await.unwrap();
    assert_eq!(world.number(begun).await, ENDED, "their turn has come");
}
