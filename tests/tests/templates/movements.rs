//! Top-ups, cuts, pause, resume and end, before and during claims.

use chrono::TimeDelta;
use coupon::{RequestId, TemplateId, UserId};
use devstack::PlatformOptions;
use mysql_store::stock::{self, Moved, NewMovement};
use pipeline_tests::{World, histories, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, NewTemplate, Run, Wish};

fn two_apis(options: PlatformOptions) -> PlatformOptions {
    PlatformOptions { apis: 2, ..options }
}

/// Requests a movement.
pub(crate) async fn move_stock(api: &Api, template: TemplateId, key: &str, body: &Value) -> Answer {
    let path = format!("/v1/templates/{template}/stock-movements");
    let request = api.operator(Method::POST, &path).header("idempotency-key", key).json(body);
    api.send(request.header("if-match", "*")).await.unwrap()
}

pub(crate) fn by(delta: i64) -> Value {
    json!({ "delta": delta, "reason": "a test" })
}

/// Returns a template's stock report for operators.
async fn account(api: &Api, template: TemplateId) -> Value {
    let path = format!("/v1/templates/{template}/stock");
    api.send(api.operator(Method::GET, &path)).await.unwrap().json().unwrap()
}

/// Waits until the gate has this stock.
async fn until_gate_has(world: &World, template: TemplateId, stock: i64) {
    let look = async || account(world.api(), template).await;
    until(look, |account| account["gate_stock"] == stock).await;
}

async fn wave(world: &World, template: TemplateId, users: std::ops::Range<i64>) -> Run {
    let wishes = users.map(|user| Wish::one(template, UserId(user))).collect();
    world.crowd().run(wishes).await.unwrap()
}

#[tokio::test]
async fn a_movement_is_made_once_for_each_key_before_and_after_publishing() {
    let world = World::start_with("movement keys", two_apis).await;
    let new = NewTemplate::simple("A sale", 3, world.clock.now(), TimeDelta::hours(1));
    let draft = world.api().create(&new).await.unwrap().id;
    let first = move_stock(world.api(), draft, "one", &by(2)).await;
    assert_eq!((first.status, first.replayed), (201, false), "{}", first.body);
    let expected = json!({ "template_id": draft.to_string(), "seq": 2, "delta": 2,
        "reason": "a test", "total": 5, "stock": 5 });
    assert_eq!(first.json::<Value>().unwrap(), expected);
    world.api().turn(draft, "publish").await.unwrap();
    assert_eq!(account(world.api(), draft).await["gate_stock"], 5);

    let cut = move_stock(&world.apis[1], draft, "two", &by(-4)).await;
    assert_eq!(cut.json::<Value>().unwrap()["stock"], 1);
    assert_eq!(account(world.api(), draft).await["gate_stock"], 1);
    for api in &world.apis {
        let again = move_stock(api, draft, "one", &by(2)).await;
        assert_eq!((again.status, again.replayed, &again.body), (201, true, &first.body));
    }
    let too_much = move_stock(world.api(), draft, "three", &by(-2)).await;
    assert_eq!((too_much.status, too_much.code().as_deref()), (409, Some("INSUFFICIENT_STOCK")));
    assert_eq!(too_much.json::<Value>().unwrap()["left"], 1);
    let after = account(world.api(), draft).await;
    assert_eq!((&after["total"], &after["gate_stock"]), (&json!(1), &json!(1)));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_movement_that_cannot_be_is_a_problem_and_moves_nothing() {
    let world = World::start("bad movements").await;
    let api = world.api();
    let template = world.template(10, |new| new).await;
    let path = format!("/v1/templates/{template}/stock-movements");
    let without_key = api.send(api.operator(Method::POST, &path).json(&by(1))).await.unwrap();
    let nobody = api.send(api.anonymous(Method::POST, &path).json(&by(1))).await.unwrap();
    assert_eq!(move_stock(api, template, "used", &by(1)).await.status, 201);
    let mut answers = vec![
        (without_key, 400, "IDEMPOTENCY_KEY_MISSING"),
        (nobody, 401, "UNAUTHENTICATED"),
        (move_stock(api, TemplateId(1), "a", &by(1)).await, 404, "TEMPLATE_NOT_FOUND"),
        (move_stock(api, template, "~a", &by(1)).await, 400, "IDEMPOTENCY_KEY_INVALID"),
        (move_stock(api, template, "used", &by(2)).await, 422, "IDEMPOTENCY_KEY_REUSED"),
        (move_stock(api, template, "a", &by(1_000_000_000)).await, 409, "TOTAL_TOO_LARGE"),
    ];
    for (body, status, code) in [
        (by(0), 422, "INVALID_MOVEMENT"),
        (by(i64::MAX), 422, "INVALID_MOVEMENT"),
        (by(i64::MIN), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1, "reason": " " }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1, "reason": "x".repeat(201) }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1 }), 400, "MALFORMED_BODY"),
        (json!({ "delta": 1.5, "reason": "x" }), 400, "MALFORMED_BODY"),
        (json!({ "delta": 1, "reason": "x", "actor": "me" }), 400, "MALFORMED_BODY"),
    ] {
        answers.push((move_stock(api, template, "b", &body).await, status, code));
    }
    for (answer, status, code) in answers {
        assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{answer:?}");
    }
    let account = account(api, template).await;
    assert_eq!((&account["total"], &account["gate_stock"]), (&json!(11), &json!(11)));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_movement_whose_api_died_reaches_the_gate() {
    let world = World::start("died api").await;
    let template = world.template(5, |new| new).await;
    let epoch = account(world.api(), template).await["epoch"].clone();
    let mut left = 5;
    for (key, delta) in [("one", 10), ("two", -12), ("three", 1)] {
        // The work of an api before it dies.
        let request_id = RequestId::from_client(key).unwrap();
        let new = NewMovement { request_id: &request_id, delta, reason: "a test", actor: "test" };
        let mut connection = world.mysql().await;
        let now = world.clock.now();
        let moved = stock::add_movement(&mut connection, template, &new, now).await.unwrap();
        assert!(matches!(moved, Moved::Recorded(_)), "{moved:?}");
        left += delta;
    }
    until_gate_has(&world, template, left).await;
    assert_eq!(account(world.api(), template).await["epoch"], epoch);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_pause_is_exact_a_resume_goes_on_and_an_end_is_for_good() {
    let world = World::start_with("pause", two_apis).await;
    let template = world.template(3_000, |new| new).await;
    let epoch = account(world.api(), template).await["epoch"].clone();
    let mut runs = Vec::new();
    let mut users = 0_i64;
    for (verb, refused) in [("pause", "PAUSED"), ("end", "ENDED")] {
        let crowd = world.crowd();
        let wishes = (users..users + 1_200).map(|user| Wish::one(template, UserId(user))).collect();
        users += 1_200;
        let landed = world.count(template).await.all();
        let running = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        world.until(template, |counts| counts.all() >= landed + 100).await;
        world.apis[0].turn(template, verb).await.unwrap();
        let landed = world.count(template).await.all();
        assert!(!running.is_finished(), "the crowd should still be at it");
        let run = running.await.unwrap();
        assert_eq!(world.count(template).await.all(), landed, "nothing lands after the answer");
        let final_ones = run.history.records.iter().filter(|record| record.is_refused());
        let mut codes = final_ones.filter_map(|record| record.code.as_deref()).peekable();
        assert!(codes.peek().is_some(), "nobody was refused");
        assert!(codes.all(|code| code == refused));
        runs.push(run);
        for api in &world.apis {
            let user = api.shopper(UserId(users)).unwrap();
            let answer = user.claim(template, None, 1).await.unwrap();
            assert_eq!(answer.code().as_deref(), Some(refused), "{}", answer.body);
            users += 1;
        }
        if verb == "pause" {
            world.apis[1].turn(template, "resume").await.unwrap();
            runs.push(wave(&world, template, users..users + 200).await);
            assert_eq!(world.count(template).await.all(), landed + 200);
            users += 200;
            world.assert_sound(None).await;
            let account = account(world.api(), template).await;
            assert_eq!((&account["gate_stock"], &account["drift"]), (&account["stock"], &json!(0)));
            assert_eq!(account["epoch"], epoch, "a state needs no new epoch");
        }
    }
    let again = world.apis[0]
        .send(world.apis[0].operator(Method::POST, &format!("/v1/templates/{template}/resume")));
    assert_eq!(again.await.unwrap().code().as_deref(), Some("INVALID_TRANSITION"));
    world.assert_sound(Some(&histories(runs))).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn top_ups_and_cuts_while_claims_run_sell_exactly_the_total() {
        let world = World::start_with("moving stock", two_apis).await;
        let template = world.template(300, |new| new).await;
        let epoch = account(world.api(), template).await["epoch"].clone();
        let mut total = 300;
        let mut runs = Vec::new();
        for (number, delta) in (1..).zip([200, -60, 150, -80, 90]) {
            let key = format!("movement-{number}");
            let sends = (0..6).map(|n| {
                let api = &world.apis[n % 2];
                let key = &key;
                async move { move_stock(api, template, key, &by(delta)).await }
            });
            // A crowd of its own runs beside each movement; the movement comes at a random moment of it.
            let crowd = wave(&world, template, number * 600..(number + 1) * 600);
            let (run, answers) = futures::join!(crowd, futures::future::join_all(sends));
            runs.push(run);
            if answers.iter().all(|answer| answer.status == 201) {
                total += delta;
                assert!(answers.iter().all(|answer| answer.body == answers[0].body), "{answers:?}");
                assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
            } else {
                // The cut exceeds the remaining stock, so both apis refuse it.
                assert!(answers.iter().all(|answer| answer.status == 409), "{answers:?}");
            }
        }
        // Users who came while nothing was left do not come back; new users claim the later stock.
        runs.push(wave(&world, template, 6_000..7_000).await);
        assert_eq!(world.count(template).await.all(), total);
        let report = world.assert_sound(Some(&histories(runs))).await;
        println!("{report}");
        let account = account(world.api(), template).await;
        assert_eq!((&account["total"], &account["gate_stock"]), (&json!(total), &json!(0)));
        assert_eq!((&account["drift"], &account["epoch"]), (&json!(0), &epoch));
        world.end().await;
    }

    #[tokio::test]
    async fn a_gate_is_loaded_ahead_of_its_window_and_none_by_a_claim_before() {
        let world = World::start_with("preload", two_apis).await;
        let opening = |after: TimeDelta| {
            let starts_at = world.clock.now() + after;
            world.template(2, move |new| NewTemplate {
                claim_starts_at: starts_at,
                claim_ends_at: starts_at + TimeDelta::hours(1),
                ..new
            })
        };
        let far = opening(TimeDelta::minutes(30)).await;
        let near = opening(TimeDelta::minutes(2)).await;
        let soon = opening(TimeDelta::seconds(5)).await;
        for template in [soon, far, near] {
            for (user, api) in (1..).zip(&world.apis) {
                let shopper = api.shopper(UserId(user)).unwrap();
                let answer = shopper.claim(template, None, 1).await.unwrap();
                assert_eq!(answer.code().as_deref(), Some("NOT_OPEN"), "{}", answer.body);
                assert!(answer.json::<Value>().unwrap()["opens_at"].is_string());
            }
        }
        // After another check nothing has changed: claims do not load a gate whose window is far ahead.
        until_gate_has(&world, near, 2).await;
        assert_eq!(account(world.api(), far).await["gate_stock"], Value::Null);
        let draft = NewTemplate::simple("A draft", 2, world.clock.now(), TimeDelta::hours(1));
        let draft = world.api().create(&draft).await.unwrap().id;
        let shopper = world.api().shopper(UserId(1)).unwrap();
        let answer = shopper.claim(draft, None, 1).await.unwrap();
        assert_eq!(answer.code().as_deref(), Some("TEMPLATE_NOT_FOUND"));
        assert_eq!(account(world.api(), draft).await["gate_stock"], Value::Null);

        let claim = async || shopper.claim(soon, None, 1).await.unwrap();
        until(claim, |answer| answer.status == 201).await;
        world.assert_sound(None).await;
        world.end().await;
    }
}
