//! Pauses, ends and cuts with claims in the queue.

use coupon::TemplateId;
use pipeline_tests::{World, promises::Promises, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::NewTemplate;

use crate::queued::{
    KEY, accepted, after_gate, after_topic, assert_sold, gate_command, gate_key, shopper, two_apis,
};

/// Pauses or ends a template, with or without its accepted claims.
async fn turn(world: &World, template: TemplateId, verb: &str, accepted: Option<&str>) {
    let path = format!("/v1/templates/{template}/{verb}");
    let request = world.api().operator(Method::POST, &path).header("if-match", "*");
    let request = match accepted {
        Some(accepted) => request.json(&json!({ "accepted": accepted })),
        None => request,
    };
    let answer = world.api().send(request).await.unwrap();
    assert_eq!(answer.status, 200, "{verb}: {answer:?}");
    let body: Value = answer.json().unwrap();
    assert_ne!(body["gate_informed"], false, "{verb}: the gate's Redis is there");
}

#[tokio::test]
async fn a_pause_and_an_end_let_accepted_claims_land_or_refuse_them_as_the_operator_says() {
    let mut world = World::start_queued_with("queued endings", two_apis).await;
    let cases = [
        ("pause", None, None),
        ("pause", Some("reject"), Some("PAUSED")),
        ("end", None, None),
        ("end", Some("reject"), Some("ENDED")),
    ];
    let mut templates = Vec::new();
    for _ in &cases {
        let queued = world.template(10, after_topic).await;
        templates.push((queued, world.template(10, after_gate).await));
    }
    world.platform.lander.pause().unwrap();
    let mut promises = Promises::default();
    for ((verb, choice, _), (one, other)) in cases.iter().zip(&templates) {
        for template in [*one, *other] {
            for user in 1..=3 {
                accepted(&mut promises, &shopper(&world, 0, user), template).await;
            }
            turn(&world, template, verb, *choice).await;
            // The call has waited until the gate knows.
            let late = shopper(&world, 1, 9).claim(template, Some(KEY), 1).await.unwrap();
            // After an end the queue is being closed, and until it is, some of its keys may still land.
            let expected = if *verb == "pause" { ["PAUSED"; 2] } else { ["ENDED", "GATE_LOADING"] };
            let code = late.code().unwrap();
            assert!(expected.contains(&code.as_str()), "{verb}: {late:?}");
        }
    }
    world.platform.lander.resume().unwrap();
    for ((verb, choice, code), (one, other)) in cases.iter().zip(&templates) {
        for template in [*one, *other] {
            let mut of_this = promises.only(|claim| claim.template == template);
            let ends = of_this.kept(&world).await;
            let rejected: usize = ends.rejected.values().sum();
            let landed = match code {
                None => 3,
                Some(code) => {
                    assert_eq!(ends.rejected.get(*code).copied(), Some(3), "{verb} {choice:?}");
                    0
                }
            };
            assert_eq!((ends.succeeded, rejected, ends.lost), (landed, 3 - landed, 0), "{verb}");
            assert_eq!(world.count(template).await.all(), i64::try_from(landed).unwrap());
        }
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_key_that_was_rejected_stays_rejected_after_the_pause_and_after_a_new_gate() {
    let mut world = World::start_queued_with("rejected keys", two_apis).await;
    let several = |new| after_topic(NewTemplate { per_user_limit: 2, ..new });
    let template = world.template(10, several).await;
    world.platform.lander.pause().unwrap();
    let mut promises = Promises::default();
    let anna = shopper(&world, 0, 1);
    accepted(&mut promises, &anna, template).await;
    turn(&world, template, "pause", Some("reject")).await;
    world.platform.lander.resume().unwrap();
    let ends = promises.kept(&world).await;
    assert_eq!(ends.rejected.get("PAUSED").copied(), Some(1), "{ends:?}");
    world.api().turn(template, "resume").await.unwrap();
    for rebuilt in [false, true] {
        if rebuilt {
            gate_command(&world, &["DEL", &gate_key(&world, template, "meta")]).await;
        }
        for api in 0..2 {
            let again = promises.insist(&shopper(&world, api, 1), template, Some(KEY), 1).await;
            assert_eq!(again.code().as_deref(), Some("PAUSED"), "rebuilt: {rebuilt}, {again:?}");
        }
    }
    let other = promises.insist(&anna, template, Some("another-key"), 1).await;
    assert_eq!(other.status, 201, "{other:?}");
    assert_sold(&world, template, 1).await;
    world.end().await;
}

#[tokio::test]
async fn after_the_end_the_queue_is_closed_and_the_gate_is_removed() {
    let mut world = World::start_queued_with("queue closed", two_apis).await;
    let template = world.template(10, after_gate).await;
    let mut promises = Promises::default();
    world.platform.lander.pause().unwrap();
    for user in 1..=5 {
        accepted(&mut promises, &shopper(&world, 0, user), template).await;
    }
    turn(&world, template, "end", None).await;
    // Without a gate, and with the queue not drained, an earlier request of a key may still land.
    gate_command(&world, &["DEL", &gate_key(&world, template, "meta")]).await;
    let early = shopper(&world, 1, 1).claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(early.status, 503, "{early:?}");
    world.platform.lander.resume().unwrap();
    let ends = promises.kept(&world).await;
    assert_eq!((ends.succeeded, ends.lost), (5, 0), "{ends:?}");
    let late = async || shopper(&world, 1, 9).claim(template, Some(KEY), 1).await.unwrap();
    let late = until(late, |answer| !answer.is_passing()).await;
    assert_eq!(late.code().as_deref(), Some("ENDED"), "{late:?}");
    let meta = async || world.sources.gate.meta(template).await.unwrap();
    until(meta, Option::is_none).await;
    let again = promises.insist(&shopper(&world, 1, 1), template, Some(KEY), 1).await;
    assert_eq!((again.status, again.replayed), (201, true), "{again:?}");
    assert_sold(&world, template, 5).await;
    world.end().await;
}

/// A cut may take what was accepted: MySQL has not heard of it yet. The later claims are rejected, and no other.
#[tokio::test]
async fn a_cut_below_what_was_accepted_rejects_the_last_claims_and_no_more() {
    let mut world = World::start_queued_with("queued cut", two_apis).await;
    let template = world.template(10, after_topic).await;
    world.platform.lander.pause().unwrap();
    let mut promises = Promises::default();
    for user in 1..=8 {
        accepted(&mut promises, &shopper(&world, 0, user), template).await;
    }
    let path = format!("/v1/templates/{template}/stock-movements");
    let cut = world.api().operator(Method::POST, &path).header("idempotency-key", "a-cut");
    let cut = cut.header("if-match", "*").json(&json!({ "delta": -5, "reason": "a test" }));
    let answer = world.api().send(cut).await.unwrap();
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    world.platform.lander.resume().unwrap();
    let ends = promises.kept(&world).await;
    assert_eq!((ends.succeeded, ends.lost), (5, 0), "{ends:?}");
    assert_eq!(ends.rejected.get("SOLD_OUT").copied(), Some(3), "{ends:?}");
    assert_sold(&world, template, 5).await;
    let late = shopper(&world, 1, 20).claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(late.code().as_deref(), Some("SOLD_OUT"), "{late:?}");
    world.end().await;
}
