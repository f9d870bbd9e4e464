//! The end of a job that added coupons: it takes back what is left, but nothing that the gate has promised to a user.

use std::fs;

use coupon::{TemplateId, UserId};
use devstack::PlatformOptions;
use pipeline_tests::{World, until};
use serde_json::{Value, json};

use crate::{
    claims::faults::start_with,
    desk::grants::{ended, grant, job_of, progress},
    queued::{KEY, after_gate},
};

async fn until_gate_has(world: &World, template: TemplateId, stock: i64) {
    let look = async || world.api().stock(template).await.unwrap();
    until(look, |seen| seen.gate_stock == Some(stock)).await;
}

/// A job for a user who already has a coupon: its row gets nothing, and the unit added for it must be taken back.
fn in_vain() -> Value {
    json!({ "user_ids": ["1"], "reason": "in vain", "from_stock": false })
}

#[tokio::test]
async fn a_job_takes_back_nothing_that_a_claim_under_way_was_admitted_for() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_with("take back", two).await;
    let rows = world.platform.options.dir.join("rows");
    let claims = world.platform.options.dir.join("claims");
    let held_rows = format!("jobs.before_outcomes=hold:{}", rows.display());
    let both = format!("{held_rows},claims.after_gate=hold:{}", claims.display());
    start_with(&mut world.platform.apis[0], "FAIL_POINTS", &both).await;
    start_with(&mut world.platform.apis[1], "FAIL_POINTS", &held_rows).await;
    let slow = world.apis[0].clone();
    let api = world.apis[1].clone();
    let template = world.template(1, |new| new).await;
    let first = api.shopper(UserId(1)).unwrap();
    assert_eq!(first.claim(template, None, 1).await.unwrap().status, 201);
    fs::write(&rows, "").unwrap();
    let job = job_of(&grant(&api, template, "k", &in_vain()).await);
    until_gate_has(&world, template, 1).await;
    // The added unit is admitted for another user before the job looks at what is left.
    fs::write(&claims, "").unwrap();
    let late = slow.shopper(UserId(2)).unwrap();
    let late = tokio::spawn(async move { late.claim(template, None, 1).await.unwrap() });
    until_gate_has(&world, template, 0).await;
    fs::remove_file(&rows).unwrap();
    let seen = ended(&api, &job).await;
    assert_eq!(seen["outcomes"], json!({ "limit_reached": 1 }), "{seen}");
    fs::remove_file(&claims).unwrap();
    let answer = late.await.unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(world.count(template).await.all(), 2);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_job_waits_with_taking_back_until_what_was_accepted_before_has_landed() {
    let mut world = World::start_queued("take back queued").await;
    let api = world.api().clone();
    let template = world.template(3, after_gate).await;
    let claim = async |user: i64| {
        let shopper = api.shopper(UserId(user)).unwrap();
        shopper.claim(template, Some(KEY), 1).await.unwrap()
    };
    assert_eq!(claim(1).await.status, 202);
    world.until(template, |counts| counts.all() == 1).await;
    world.platform.lander.kill().unwrap();
    assert_eq!(claim(2).await.status, 202);
    let job = job_of(&grant(&api, template, "k", &in_vain()).await);
    let waits = async || progress(&api, &job).await;
    let seen = until(waits, |seen| seen["waits_for"] == "CLAIM_PENDING").await;
    assert_eq!((&seen["state"], &seen["pending"]), (&json!("running"), &json!(0)));
    assert_eq!(api.stock(template).await.unwrap().total, 4, "not yet taken back");
    world.platform.lander.start().await.unwrap();
    let seen = ended(&api, &job).await;
    assert_eq!(seen["outcomes"], json!({ "limit_reached": 1 }), "{seen}");
    let stock = api.stock(template).await.unwrap();
    assert_eq!((stock.total, stock.landed), (3, 2), "what is left of it is taken back");
    world.assert_sound(None).await;
    world.end().await;
}
