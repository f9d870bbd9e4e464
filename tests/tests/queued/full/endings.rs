//! Pauses, ends and cuts with claims in the queue.

use coupon::TemplateId;
use devstack::{Endpoints, OwnRedis, TestServers};
use pipeline_tests::{
    STATE_MAX, World,
    promises::{Ends, Promises},
    until,
};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::NewTemplate;

use crate::{
    claims::faults::is_stopped,
    queued::{
        KEY, accepted, after_gate, after_topic, arm, assert_sold, cut, decided, gate_command,
        gate_key, modes::set_mode, shopper, two_apis,
    },
};

/// Pauses or ends a template, with or without its accepted claims. Returns the answer's body.
async fn turned(world: &World, template: TemplateId, verb: &str, accepted: Option<&str>) -> Value {
    let path = format!("/v1/templates/{template}/{verb}");
    let request = world.api().operator(Method::POST, &path).header("if-match", "*");
    let request = match accepted {
        Some(accepted) => request.json(&json!({ "accepted": accepted })),
        None => request,
    };
    let answer = world.api().send(request).await.unwrap();
    assert_eq!(answer.status, 200, "{verb}: {answer:?}");
    answer.json().unwrap()
}

/// Like [`turned`], with a gate that hears of it.
async fn turn(world: &World, template: TemplateId, verb: &str, accepted: Option<&str>) {
    let body = turned(world, template, verb, accepted).await;
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

/// The steps of closing a queue: the epoch has risen, the gate is closed, and all that was queued has ended.
const CLOSING: [&str; 3] =
    ["rebuild.before_begin", "rebuild.before_drain", "rebuild.before_queued_epoch"];

#[tokio::test]
async fn a_process_that_dies_or_stops_while_it_closes_a_queue_leaves_it_to_another() {
    let mut world = World::start_queued_with("queue closers", two_apis).await;
    let mut promises = Promises::default();
    for (point, action) in CLOSING.iter().flat_map(|point| [(point, "kill"), (point, "stop")]) {
        let fault = format!("{point}={action}");
        let template = world.template(10, after_gate).await;
        for user in 1..=3 {
            accepted(&mut promises, &shopper(&world, 0, user), template).await;
        }
        arm(&mut world.platform.apis[1], &fault).await;
        // Only the api that will fall may close it. Its answer may come before or after its fall.
        world.platform.apis[0].pause().unwrap();
        let end = format!("/v1/templates/{template}/end");
        let end = world.apis[1].operator(Method::POST, &end).header("if-match", "*");
        let asking = world.apis[1].clone();
        let asked = tokio::spawn(async move { asking.send(end).await });
        if action == "stop" {
            until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;
        } else {
            world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
        }
        world.platform.apis[0].resume().unwrap();
        let late = async || shopper(&world, 0, 9).claim(template, Some(KEY), 1).await.unwrap();
        let late = until(late, |answer| !answer.is_passing()).await;
        assert_eq!(late.code().as_deref(), Some("ENDED"), "{fault}: {late:?}");
        if action == "stop" {
            world.platform.apis[1].resume().unwrap();
        }
        drop(asked.await.unwrap());
        arm(&mut world.platform.apis[1], "").await;
        let meta = async || world.sources.gate.meta(template).await.unwrap();
        until(meta, Option::is_none).await;
        let count = promises.claims.len();
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count), "{fault}");
        assert_eq!(decided(&world, template).await, (3, 0), "{fault}");
    }
    world.assert_sound(None).await;
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
    cut(&world, template, 5).await;
    world.platform.lander.resume().unwrap();
    let ends = promises.kept(&world).await;
    assert_eq!((ends.succeeded, ends.lost), (5, 0), "{ends:?}");
    assert_eq!(ends.rejected.get("SOLD_OUT").copied(), Some(3), "{ends:?}");
    assert_sold(&world, template, 5).await;
    let late = shopper(&world, 1, 20).claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(late.code().as_deref(), Some("SOLD_OUT"), "{late:?}");
    world.end().await;
}

/// A gate that hangs hears of no pause: the operator is told so where the gate may go on accepting claims, and it holds
/// once the gate knows.
#[tokio::test]
async fn a_pause_or_an_end_of_which_the_gate_does_not_hear_says_so_and_holds_once_it_has() {
    let mut gate = OwnRedis::view("queued-deaf-gate", &["--maxmemory-policy", "noeviction"]).await;
    let gate = gate.as_mut().unwrap();
    let endpoints =
        Endpoints { gate_redis_url: gate.url(), ..TestServers::shared().endpoints().clone() };
    let world = World::start_on(&TestServers::at(endpoints), "queued deaf gate", two_apis).await;
    let queued = world.template(10, after_topic).await;
    let spill = world.template(10, |new| new.in_mode("spill", "topic")).await;
    let once_queued = world.template(10, after_topic).await;
    set_mode(&world, once_queued, "direct").await;
    let direct = world.template(10, |new| new).await;
    let absent = Value::Null;
    // Only a gate that never queued a claim of the template need not hear of it.
    let cases = [
        (queued, "pause", json!(false), json!(true), "PAUSED"),
        (spill, "end", json!(false), json!(true), "ENDED"),
        (once_queued, "pause", json!(false), absent.clone(), "PAUSED"),
        (direct, "pause", absent.clone(), absent, "PAUSED"),
    ];
    let mut promises = Promises::default();
    accepted(&mut promises, &shopper(&world, 0, 1), queued).await;
    gate.server.pause().unwrap();
    for (template, verb, unheard, _, _) in &cases {
        let body = turned(&world, *template, verb, None).await;
        let state = if *verb == "pause" { "paused" } else { "ended" };
        let said = (body["state"].as_str(), &body["gate_informed"]);
        assert_eq!(said, (Some(state), unheard), "{verb}: {body}");
    }
    gate.server.resume().unwrap();
    for (template, verb, _, heard, code) in &cases {
        let told = async || turned(&world, *template, verb, None).await["gate_informed"].clone();
        until(told, |told| told == heard).await;
        let late = async || shopper(&world, 1, 9).claim(*template, Some(KEY), 1).await.unwrap();
        let late = until(late, |answer| !answer.is_passing()).await;
        assert_eq!(late.code().as_deref(), Some(*code), "{verb}: {late:?}");
    }
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));
    assert_sold(&world, queued, 1).await;
    world.end().await;
}
