//! An operator ends a wait that nothing else ends: the sale goes on, and users whose claims are given up are told so.

use coupon::TemplateId;
use pipeline_tests::{
    promises::{Ends, Promises},
    until,
};
use serde_json::{Value, json};

use crate::{
    claims::full::epochs::{flush, open_again, world_with_own_gate},
    operators::cli::Cli,
    queued::{KEY, accepted, after_topic, assert_sold, shopper},
};

/// Users whose claims wait in the topic when the gate is lost.
const USERS: i64 = 5;

/// The way of the runbook, from the alert to the last user's coupon.
#[tokio::test]
async fn an_operator_ends_a_drain_and_who_waited_is_told_and_claims_again_with_the_same_key() {
    let (gate, mut world) = world_with_own_gate("queued-ended-drain").await;
    let cli = Cli::of(&world);
    let template = world.template(20, after_topic).await;
    let end_drain = format!("template end-drain {template}");
    assert_eq!(cli.run(&end_drain).await.code, 2, "it asks, and nobody is at the terminal");
    let end_drain = format!("{end_drain} --yes");
    let early = cli.run(&end_drain).await;
    assert!(early.code == 1 && early.err.contains("NO_DRAIN"), "{early:?}");

    world.platform.lander.pause().unwrap();
    let mut promises = Promises::default();
    for user in 1..=USERS {
        accepted(&mut promises, &shopper(&world, 0, user), template).await;
    }
    flush(&gate).await;
    let stock = async || cli.json(&format!("stock show {template}")).await;
    let drains = |stock: &Value| stock["queued_epoch"].as_i64() < stock["epoch"].as_i64();
    let waiting = until(stock, drains).await;
    assert_eq!(waiting["gate_stock"], Value::Null, "no claim is admitted meanwhile");
    // It is lost once more while it waits, and nothing is left that could be loaded.
    let look = async || world.sources.gate.meta(template).await.ok().flatten();
    until(look, Option::is_some).await;
    flush(&gate).await;
    let run = async || cli.run(&end_drain).await;
    let ended = until(run, |ran| ran.code == 0).await;
    assert!(ended.out.contains("epoch"), "{ended:?}");
    open_again(&world, template, 0).await;

    // Nothing has landed, and what the lander finds when it is back is too late.
    let lost = Ends { lost: promises.claims.len(), ..Ends::default() };
    assert_eq!(promises.kept(&world).await, lost);
    world.platform.lander.resume().unwrap();
    assert_record(&cli, template).await;
    let mut again = Promises::default();
    for user in 1..=USERS {
        let anna = shopper(&world, 1, user);
        let landed = again.insist(&anna, template, Some(KEY), 1).await;
        assert_eq!(landed.status, 201, "{landed:?}");
    }
    let count = again.claims.len();
    assert_eq!(again.kept(&world).await, Ends::all_succeeded(count));
    assert_eq!(promises.kept(&world).await, lost, "what is lost stays lost");
    assert_sold(&world, template, USERS).await;
    let late = cli.run(&end_drain).await;
    assert!(late.code == 1 && late.err.contains("NO_DRAIN"), "{late:?}");
    world.end().await;
}

/// The operator who gave up users' claims is on record, and no refused request is.
async fn assert_record(cli: &Cli, template: TemplateId) {
    let audit = cli.json(&format!("audit --target templates/{template}")).await;
    let lines = audit["data"].as_array().unwrap();
    let ends: Vec<&Value> =
        lines.iter().filter(|line| line["action"] == "gate.end_drain").collect();
    assert_eq!(ends.len(), 1, "{audit}");
    let epoch = cli.json(&format!("stock show {template}")).await["queued_epoch"].clone();
    assert_eq!(ends[0]["after"], json!({ "queued_epoch": epoch }));
    assert!(ends[0]["before"]["queued_epoch"].as_i64() < epoch.as_i64());
}
