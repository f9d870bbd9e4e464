//! Grants as jobs: an outcome for each row, once for each key, under the template's limit and stock, and on after a
//! kill.

use std::fs;

use coupon::{TemplateId, UserId};
use devstack::{Flavor, PlatformOptions};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, NewTemplate};

use crate::{
    desk::{another_merchant, get, post, refusal},
    operators::cli::Cli,
};

/// Users of the job whose process is killed: enough that it dies in the middle.
const MANY: i64 = 6_000;

pub(crate) async fn grant(api: &Api, template: TemplateId, key: &str, body: &Value) -> Answer {
    let request = api.operator(Method::POST, &format!("/v1/templates/{template}/grants"));
    let request = if key.is_empty() { request } else { request.header("idempotency-key", key) };
    api.send(request.json(body)).await.unwrap()
}

pub(crate) fn job_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.json::<Value>().unwrap()["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn progress(api: &Api, job: &str) -> Value {
    get(api, &format!("/v1/jobs/{job}")).await
}

pub(crate) async fn ended(api: &Api, job: &str) -> Value {
    until(async || progress(api, job).await, |seen| seen.get("ended_at").is_some()).await
}

fn users(ids: impl IntoIterator<Item = i64>) -> Vec<String> {
    ids.into_iter().map(|id| id.to_string()).collect()
}

#[tokio::test]
async fn each_row_has_its_outcome_and_a_job_is_done_once_under_its_key() {
    Box::pin(outcomes(Flavor::Mariadb)).await;
}

async fn outcomes(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "grants", |options| options).await;
    let Some(world) = started else { return };
    let api = world.api();
    let template = world.template(12, |new| new).await;
    let anna = api.shopper(UserId(1)).unwrap();
    assert_eq!(anna.claim(template, None, 1).await.unwrap().status, 201);
    let mut ids = users(1..=10);
    ids.extend(["10", "x", "-4"].map(str::to_owned));
    let body = json!({ "user_ids": ids, "reason": "ticket 1" });
    let first = grant(api, template, "k", &body).await;
    let job = job_of(&first);
    let seen = ended(api, &job).await;
    let outcomes =
        json!({ "granted": 9, "limit_reached": 1, "duplicate": 1, "invalid_user_id": 2 });
    assert_eq!((&seen["state"], &seen["outcomes"]), (&json!("finished"), &outcomes));
    let again = grant(api, template, "k", &body).await;
    assert_eq!((again.body.as_str(), again.replayed), (first.body.as_str(), true));
    // A retry after the key was rotated is still the same job.
    let key = json!({ "name": "another", "scopes": ["operate"] });
    let key: Value = post(api, "/v1/api-keys", &key).await.json().unwrap();
    let other = api.with_operator_key(key["key"].as_str().unwrap());
    let again = grant(&other, template, "k", &body).await;
    assert_eq!((again.body.as_str(), again.replayed), (first.body.as_str(), true));
    assert_eq!(world.count(template).await.all(), 10);

    let rows = get(api, &format!("/v1/jobs/{job}/rows?limit=100")).await;
    let rows = rows["data"].as_array().unwrap();
    assert_eq!(rows.len(), 13);
    assert_eq!((&rows[0]["outcome"], &rows[11]["given"]), (&json!("limit_reached"), &json!("x")));
    let claim = rows[1]["claim_id"].as_str().unwrap();
    let state = get(api, &format!("/v1/claim-states/{claim}")).await;
    assert_eq!(state["claim"]["user_id"], "2", "an ordinary claim");
    let bad = get(api, &format!("/v1/jobs/{job}/rows?outcome=invalid_user_id&limit=1")).await;
    assert_eq!((&bad["data"][0]["row"], &bad["has_more"]), (&json!(12), &json!(true)));

    // 2 are left. Three are added for three users of whom two hold one already: two of them are taken back.
    let more = json!({ "user_ids": users([2, 3, 21]), "reason": "more", "from_stock": false });
    let seen = ended(api, &job_of(&grant(api, template, "more", &more).await)).await;
    assert_eq!(seen["outcomes"], json!({ "granted": 1, "limit_reached": 2 }));
    let stock = api.stock(template).await.unwrap();
    assert_eq!((stock.total, stock.landed, stock.stock), (13, 11, 2));
    let too_many = json!({ "user_ids": users(31..=34), "reason": "too many" });
    let seen = ended(api, &job_of(&grant(api, template, "too-many", &too_many).await)).await;
    assert_eq!(seen["outcomes"], json!({ "granted": 2, "sold_out": 2 }));
    let counted = async |outcome: &str| {
        let series = format!("api_job_rows_total{{outcome=\"{outcome}\"}}");
        world.platform.apis[0].metric(&series).await
    };
    assert_eq!(counted("granted").await, Some(12.0));
    assert_eq!((counted("limit_reached").await, counted("sold_out").await), (Some(3.0), Some(2.0)));

    let refused = async |key: &str, body: Value| refusal(&grant(api, template, key, &body).await);
    let reused = json!({ "user_ids": ["1"], "reason": "ticket 1" });
    assert_eq!(refused("k", reused.clone()).await, (422, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    assert_eq!(refused("", reused).await, (400, "IDEMPOTENCY_KEY_MISSING".to_owned()));
    for body in [
        json!({ "user_ids": [], "reason": "x" }),
        json!({ "user_ids": ["1"] }),
        json!({ "user_ids": ["1"], "reason": "x", "quantity": 2 }),
        json!({ "user_ids": vec!["1"; 50_001], "reason": "x" }),
    ] {
        assert_eq!(refused("wrong", body).await, (422, "INVALID_GRANTS".to_owned()));
    }
    let foreign = another_merchant(api).await;
    let path = format!("/v1/jobs/{job}");
    let hidden = foreign.send(foreign.operator(Method::GET, &path)).await.unwrap();
    assert_eq!(refusal(&hidden), (404, "JOB_NOT_FOUND".to_owned()));
    let reason = json!({ "reason": "x" });
    let hidden = post(&foreign, &format!("{path}/cancel"), &reason).await;
    assert_eq!(refusal(&hidden), (404, "JOB_NOT_FOUND".to_owned()));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_job_waits_for_a_paused_template_and_can_be_cancelled_and_a_file_is_one_too() {
    let world = World::start("grants paused").await;
    let api = world.api();
    let template = world.template(20, |new| new).await;
    api.turn(template, "pause").await.unwrap();
    let body = json!({ "user_ids": users(1..=5), "reason": "x", "from_stock": false });
    let job = job_of(&grant(api, template, "k", &body).await);
    let waiting = async || progress(api, &job).await;
    let seen = until(waiting, |seen| seen["waits_for"] == "PAUSED").await;
    assert_eq!((&seen["pending"], &seen["state"]), (&json!(5), &json!("running")));
    assert_eq!(api.stock(template).await.unwrap().total, 25);
    let process = &world.platform.apis[0];
    until(async || process.metric("api_jobs{state=\"waiting\"}").await, |jobs| *jobs == Some(1.0))
        .await;
    assert!(process.metric("api_job_oldest_seconds").await > Some(0.0));
    let reason = json!({ "reason": "not needed" });
    for _ in 0..2 {
        let cancelled = post(api, &format!("/v1/jobs/{job}/cancel"), &reason).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    }
    let seen = ended(api, &job).await;
    assert_eq!(
        (&seen["state"], &seen["outcomes"]),
        (&json!("cancelled"), &json!({ "cancelled": 5 }))
    );
    assert_eq!(api.stock(template).await.unwrap().total, 20, "what was added is taken back");
    let cancelled = "api_job_rows_total{outcome=\"cancelled\"}";
    until(async || process.metric(cancelled).await, |rows| *rows == Some(5.0)).await;
    api.turn(template, "resume").await.unwrap();

    // Lines, as a file has them.
    let path = format!("/v1/templates/{template}/grants?reason=a+file&quantity=1");
    let request = api.operator(Method::POST, &path).header("idempotency-key", "file");
    let request = request.header("content-type", "application/x-ndjson");
    let answer = api.send(request.body("{\"user_id\": \"1\"}\n2\n\n\"3\"\n")).await.unwrap();
    assert_eq!(ended(api, &job_of(&answer)).await["outcomes"], json!({ "granted": 3 }));
    let picture = api.operator(Method::POST, &path).header("content-type", "image/png");
    let picture = picture.header("idempotency-key", "png").body("1");
    assert_eq!(refusal(&api.send(picture).await.unwrap()), (415, "NOT_JSON".to_owned()));

    let cli = Cli::of(&world);
    let file = world.platform.options.dir.join("users.txt");
    fs::write(&file, "\u{feff}7\n8\n\n8\nnobody\n").unwrap();
    let granted = cli.json(&format!("grants {template} {} --reason cli", file.display())).await;
    let outcomes = json!({ "granted": 2, "duplicate": 1, "invalid_user_id": 1 });
    assert_eq!((&granted["state"], &granted["outcomes"]), (&json!("finished"), &outcomes));
    let id = granted["id"].as_str().unwrap();
    let rows = cli.json(&format!("jobs rows {id} --outcome granted")).await;
    assert_eq!(rows["data"].as_array().unwrap().len(), 2);
    api.turn(template, "end").await.unwrap();
    let over = grant(api, template, "over", &json!({ "user_ids": ["9"], "reason": "x" })).await;
    assert_eq!(refusal(&over), (409, "ENDED".to_owned()));
    let draft = NewTemplate::simple("d", 1, world.clock.now(), chrono::TimeDelta::hours(1));
    let draft = api.create(&draft).await.unwrap().id;
    let early = grant(api, draft, "early", &json!({ "user_ids": ["9"], "reason": "x" })).await;
    assert_eq!(refusal(&early), (409, "INVALID_TRANSITION".to_owned()));
    world.assert_sound(None).await;
    world.end().await;
}

/// Nobody pays for a grant, so a held one would lapse on its user.
#[tokio::test]
async fn a_grant_at_a_template_with_holds_is_never_held_and_needs_to_say_so() {
    let world = World::start("grants held").await;
    let api = world.api();
    let held = |new: NewTemplate| NewTemplate {
        per_user_limit: 2,
        max_per_claim: 2,
        ..new.held_for(chrono::TimeDelta::minutes(20))
    };
    let template = world.template(20, held).await;
    let body = json!({ "user_ids": users(1..=3), "quantity": 2, "reason": "gifts" });
    for confirmed in [Value::Null, json!(false)] {
        let mut wrong = body.clone();
        wrong["confirmed"] = confirmed;
        let answer = grant(api, template, "k", &wrong).await;
        assert_eq!(refusal(&answer), (422, "INVALID_GRANTS".to_owned()));
        let problem: Value = answer.json().unwrap();
        let named = (&problem["field"], &problem["hold_ms"]);
        assert_eq!(named, (&json!("confirmed"), &json!(1_200_000)), "{problem}");
    }
    assert_eq!(world.count(template).await.all(), 0);
    let mut asked = body.clone();
    asked["confirmed"] = json!(true);
    let job = job_of(&grant(api, template, "k", &asked).await);
    assert_eq!(ended(api, &job).await["outcomes"], json!({ "granted": 3 }));
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.held, counts.all()), (6, 0, 6));
    let again = grant(api, template, "k", &asked).await;
    assert!(again.replayed && job_of(&again) == job);
    // A file, and the command line.
    let path = format!("/v1/templates/{template}/grants?reason=a+file&confirmed=true");
    let request = api.operator(Method::POST, &path).header("idempotency-key", "file");
    let request = request.header("content-type", "text/plain");
    let answer = api.send(request.body("4\n")).await.unwrap();
    assert_eq!(ended(api, &job_of(&answer)).await["outcomes"], json!({ "granted": 1 }));
    let cli = Cli::of(&world);
    let file = world.platform.options.dir.join("held.txt");
    fs::write(&file, "5\n").unwrap();
    let command = format!("grants {template} {} --reason cli", file.display());
    let refused = cli.run(&command).await;
    assert!(refused.code == 1 && refused.err.contains("(INVALID_GRANTS)"), "{refused:?}");
    let granted = cli.json(&format!("{command} --confirmed")).await;
    assert_eq!(granted["outcomes"], json!({ "granted": 1 }));
    // Who buys still pays.
    let bought = api.shopper(UserId(6)).unwrap().claim(template, Some("k"), 1).await.unwrap();
    assert_eq!(bought.json::<Value>().unwrap()["status"], "held");
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.held, counts.all()), (8, 1, 9));
    world.assert_sound(None).await;
    world.end().await;
}

/// A row of a queue is looked at again long after its hold would have lapsed.
#[tokio::test]
async fn what_is_granted_through_a_queue_lapses_on_nobody_also_if_the_job_is_cancelled() {
    let world = World::start_queued("grants queued held").await;
    let api = world.api();
    let brief = |new: NewTemplate| NewTemplate {
        lapses_allowed: Some(1),
        per_user_limit: 2,
        ..new.held_for(crate::holds::SHORT).in_mode("queued", "topic")
    };
    let template = world.template(1_000, brief).await;
    let body = json!({ "user_ids": users(1..=100), "reason": "gifts", "confirmed": true });
    let job = job_of(&grant(api, template, "k", &body).await);
    assert_eq!(ended(api, &job).await["outcomes"], json!({ "granted": 100 }));
    let body = json!({ "user_ids": users(101..=700), "reason": "gifts", "confirmed": true });
    let job = job_of(&grant(api, template, "cut-short", &body).await);
    world.until(template, |counts| counts.all() > 100).await;
    let reason = json!({ "reason": "a mistake" });
    assert_eq!(post(api, &format!("/v1/jobs/{job}/cancel"), &reason).await.status, 200);
    let outcomes = ended(api, &job).await["outcomes"].clone();
    let granted = outcomes["granted"].as_i64().unwrap();
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.held, counts.lapsed), (100 + granted, 0, 0), "{outcomes}");
    // Who claims still pays, and is not banned by a grant.
    let anna = api.shopper(UserId(1)).unwrap();
    let bought = anna.claim(template, Some("k"), 1).await.unwrap();
    assert_eq!(bought.status, 202, "{bought:?}");
    world.until(template, |counts| counts.held + counts.lapsed == 1).await;
    world.assert_sound(None).await;
    world.end().await;
}

/// Without a limit per user nothing but the rows' own keys keeps a repeated row from taking a second coupon.
async fn killed(flavor: Flavor) {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let started = World::start_on_flavor(flavor, "grants killed", two).await;
    let Some(mut world) = started else { return };
    let unlimited = |new| NewTemplate { per_user_limit: 0, ..new };
    let template = world.template(2 * MANY, unlimited).await;
    let body = json!({ "user_ids": users(1..=MANY), "reason": "killed" });
    let api = world.apis[0].clone();
    let job = job_of(&grant(&api, template, "k", &body).await);
    world.until(template, |counts| counts.all() > MANY / 20).await;
    // Either api may have the job, so both are killed; the restarted ones go on with it.
    world.platform.apis[1].kill().unwrap();
    world.platform.apis[0].kill().unwrap();
    let before = world.count(template).await.all();
    assert!(before < MANY, "the processes should have died in the middle");
    for api in &mut world.platform.apis {
        api.start().await.unwrap();
    }
    let seen = ended(&api, &job).await;
    assert_eq!(seen["outcomes"], json!({ "granted": MANY }));
    assert_eq!(world.count(template).await.all(), MANY);
    let stock = api.stock(template).await.unwrap();
    assert_eq!((stock.landed, stock.stock), (MANY, MANY));
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn each_row_on_mysql_has_its_outcome_and_a_job_is_done_once_under_its_key() {
        Box::pin(outcomes(Flavor::Mysql)).await;
    }

    testkit::on_each_flavor! {
        killed:
        a_job_whose_process_is_killed_goes_on_and_grants_nothing_twice,
        #[ignore = "its statements run on MySQL in mysql-store; ./dev soak mysql"]
        a_job_on_mysql_whose_process_is_killed_goes_on_and_grants_nothing_twice,
    }

    /// The claims of three rows hang behind the gate, and the job is cancelled meanwhile. The rows show how these claims
    /// end.
    #[tokio::test]
    async fn a_row_that_lands_after_its_job_was_cancelled_says_so() {
        let mut world = World::start("grants under way").await;
        let hold = world.platform.options.dir.join("hold");
        let process = &mut world.platform.apis[0];
        process.set_env("FAIL_POINTS", &format!("claims.after_gate=hold:{}", hold.display()));
        process.restart().await.unwrap();
        let api = world.api();
        let template = world.template(10, |new| new).await;
        fs::write(&hold, "").unwrap();
        let body = json!({ "user_ids": users(1..=3), "reason": "slow" });
        let job = job_of(&grant(api, template, "k", &body).await);
        let under_way = async || world.platform.apis[0].metric("coupon_claims_under_way").await;
        until(under_way, |claims| *claims == Some(3.0)).await;
        let reason = json!({ "reason": "not needed" });
        let cancelled = post(api, &format!("/v1/jobs/{job}/cancel"), &reason).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.body);
        // The job's turn does not wait for these claims.
        let turned = async || progress(api, &job).await;
        let has_turned =
            |seen: &Value| seen["waits_for"] == "CLAIM_PENDING" || seen.get("ended_at").is_some();
        until(turned, has_turned).await;
        fs::remove_file(hold).unwrap();
        let seen = ended(api, &job).await;
        world.assert_sound(None).await;
        let landed = world.count(template).await.all();
        let outcomes = &seen["outcomes"];
        let of = |outcome: &str| outcomes[outcome].as_i64().unwrap_or_default();
        assert_eq!((of("granted"), of("cancelled")), (landed, 3 - landed), "{seen}");
        assert_eq!(seen["state"], "cancelled");
        world.end().await;
    }

    /// One merchant's jobs are more than there are workers. Another merchant's small job and users' claims are done while
    /// they are under way.
    #[tokio::test]
    async fn the_large_jobs_of_a_merchant_keep_neither_another_ones_job_nor_claims_waiting() {
        let world = World::start("grants fair").await;
        let api = world.api();
        let jobs = 6;
        let rows = 8_000;
        let few = 300;
        let unlimited = |new| NewTemplate { per_user_limit: 0, ..new };
        let large = world.template(jobs * rows, unlimited).await;
        let live = world.template(30, |new| new).await;
        let foreign = another_merchant(api).await;
        let new = NewTemplate::simple("B", few, world.clock.now(), chrono::TimeDelta::hours(1));
        let small = foreign.publish_new(&new).await.unwrap().id;
        let mut large_ones = Vec::new();
        for number in 0..jobs {
            let body = json!({ "user_ids": users(1..=rows), "reason": "large" });
            large_ones.push(job_of(&grant(api, large, &format!("large-{number}"), &body).await));
        }
        world.until(large, |counts| counts.all() > 0).await;

        let body = json!({ "user_ids": users(1..=few), "reason": "small" });
        let small_one = job_of(&grant(&foreign, small, "small", &body).await);
        for user in 1..=30 {
            let shopper = api.shopper(UserId(user)).unwrap();
            assert_eq!(shopper.claim(live, None, 1).await.unwrap().status, 201);
        }
        let seen = ended(&foreign, &small_one).await;
        assert_eq!(seen["outcomes"], json!({ "granted": few }));
        let mut pending = 0;
        for job in &large_ones {
            pending += progress(api, job).await["pending"].as_i64().unwrap();
        }
        assert!(pending > 0, "the large jobs ended first");

        let reason = json!({ "reason": "enough seen" });
        let mut granted = 0;
        for job in &large_ones {
            assert_eq!(post(api, &format!("/v1/jobs/{job}/cancel"), &reason).await.status, 200);
        }
        for job in &large_ones {
            let outcomes = &ended(api, job).await["outcomes"];
            granted += outcomes["granted"].as_i64().unwrap_or_default();
        }
        assert_eq!(world.count(large).await.all(), granted);
        assert_eq!(world.count(small).await.all(), few);
        assert_eq!(world.count(live).await.all(), 30);
        world.assert_sound(None).await;
        world.end().await;
    }
}
