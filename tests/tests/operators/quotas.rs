//! Quotas of merchants: concurrent requests cannot exceed one together, the answer says what to do, and the
//! platform has none.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Timelike as _, Utc};
use coupon::{MerchantId, TemplateId, limit};
use devstack::PlatformOptions;
use futures::future::join_all;
use mysql_store::{
    Listed,
    audit::{self, Filter},
    quota, template,
};
use pipeline_tests::{World, until};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shopper::{Answer, Api, NewTemplate};
use tokio::sync::Barrier;

/// Quota of a merchant's open templates in this test.
const TEMPLATES: usize = 3;
/// Quota of view rebuilds per hour.
const REBUILDS: usize = 4;
/// Quota of gate rebuilds per hour.
const GATES: usize = 2;
/// Concurrent requests.
const AT_ONCE: usize = 12;

async fn send(api: &Api, method: Method, path: &str, body: &Value) -> Answer {
    let request = api.operator(method, path);
    let request = if body.is_null() { request } else { request.json(body) };
    api.send(request).await.unwrap()
}

async fn post(api: &Api, path: &str, body: &Value) -> Answer {
    send(api, Method::POST, path, body).await
}

/// Creates a merchant; returns its id and its operator at each api.
async fn merchant(world: &World) -> (MerchantId, Vec<Api>) {
    let made: Value =
        post(world.api(), "/v1/merchants", &json!({ "name": "A shop" })).await.json().unwrap();
    let id = made["id"].as_str().unwrap();
    let key = json!({ "name": "first", "scopes": ["admin"], "merchant_id": id });
    let key: Value = post(world.api(), "/v1/api-keys", &key).await.json().unwrap();
    let key = key["key"].as_str().unwrap();
    (id.parse().unwrap(), world.apis.iter().map(|api| api.with_operator_key(key)).collect())
}

/// Sends requests at the same moment, to these apis in turn.
async fn at_once(apis: &[Api], path: impl Fn(usize) -> String, body: &Value) -> Vec<Answer> {
    let request = |api: &Api, number| {
        let request = api.operator(Method::POST, &path(number));
        if body.is_null() { request } else { request.json(body) }
    };
    all_at_once(apis, AT_ONCE, request).await
}

async fn all_at_once(
    apis: &[Api],
    count: usize,
    request: impl Fn(&Api, usize) -> RequestBuilder,
) -> Vec<Answer> {
    let barrier = Arc::new(Barrier::new(count));
    join_all((0..count).map(|number| {
        let api = &apis[number % apis.len()];
        let barrier = Arc::clone(&barrier);
        let request = request(api, number);
        async move {
            barrier.wait().await;
            api.send(request).await.unwrap()
        }
    }))
    .await
}

fn of_status(answers: &[Answer], status: u16) -> Vec<&Answer> {
    answers.iter().filter(|answer| answer.status == status).collect()
}

fn assert_over(answer: &Answer, status: u16, code: &str, quota: &str, limit: usize) {
    let problem: Value = answer.json().unwrap();
    assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{problem}");
    assert_eq!((&problem["quota"], &problem["limit"]), (&json!(quota), &json!(limit)));
}

#[tokio::test]
async fn requests_at_once_make_no_more_open_templates_than_a_merchant_may_have() {
    let world = World::start_with("open templates", |options| {
        let limit = TEMPLATES.to_string();
        PlatformOptions { apis: 2, ..options }.with_env("MERCHANT_OPEN_TEMPLATES", &limit)
    })
    .await;
    let (id, apis) = merchant(&world).await;
    let new = NewTemplate::simple("A sale", 10, world.clock.now(), TimeDelta::hours(1));
    let new = json!(new);
    let answers = at_once(&apis, |_| "/v1/templates".to_owned(), &new).await;
    assert_eq!(of_status(&answers, 201).len(), TEMPLATES);
    for refused in of_status(&answers, 409) {
        assert_over(refused, 409, "QUOTA_EXCEEDED", "open_templates", TEMPLATES);
        assert_eq!(refused.json::<Value>().unwrap()["retryable"], false);
    }
    let stored = async || template::page(&mut world.mysql().await, id, None, 100).await.unwrap();
    assert_eq!(stored().await.len(), TEMPLATES);

    // A template whose window is over does not count, and cannot be reopened beyond the quota.
    let mut over = new.clone();
    over["claim_starts_at"] = json!("2020-01-01T00:00:00Z");
    over["claim_ends_at"] = json!("2020-01-02T00:00:00Z");
    let over: Value = post(&apis[0], "/v1/templates", &over).await.json().unwrap();
    let over = format!("/v1/templates/{}", over["id"].as_str().unwrap());
    let later = json!({ "version": 1, "claim_ends_at": new["claim_ends_at"] });
    let edited = send(&apis[0], Method::PATCH, &over, &later).await;
    assert_over(&edited, 409, "QUOTA_EXCEEDED", "open_templates", TEMPLATES);

    // Ending a template frees its part of the quota.
    let first = format!("/v1/templates/{}", stored().await[TEMPLATES].id);
    let meant = json!({ "confirm": new["name"] });
    for verb in ["publish", "end"] {
        assert_eq!(post(&apis[0], &format!("{first}/{verb}"), &meant).await.status, 200);
    }
    assert_eq!(send(&apis[0], Method::PATCH, &over, &later).await.status, 200);
    assert_eq!(post(&apis[0], "/v1/templates", &new).await.status, 409);
    // The platform's own key has no quota.
    for _ in 0..=TEMPLATES {
        assert_eq!(post(world.api(), "/v1/templates", &new).await.status, 201);
    }
    world.end().await;
}

#[tokio::test]
async fn a_merchant_at_its_quota_of_templates_makes_room_by_each_way_that_the_refusal_names() {
    let world = World::start_with("room for templates", |options| {
        options.with_env("MERCHANT_OPEN_TEMPLATES", "2")
    })
    .await;
    let (id, apis) = merchant(&world).await;
    let api = &apis[0];
    let new = json!(NewTemplate::simple("A sale", 10, world.clock.now(), TimeDelta::hours(1)));
    let made = async |body: &Value| -> String {
        let made = post(api, "/v1/templates", body).await;
        assert_eq!(made.status, 201, "{made:?}");
        let made: Value = made.json().unwrap();
        format!("/v1/templates/{}", made["id"].as_str().unwrap())
    };
    let meant = json!({ "confirm": "A sale" });
    let turned = async |path: &str, verb: &str| {
        let turned = post(api, &format!("{path}/{verb}"), &meant).await;
        assert_eq!(turned.status, 200, "{verb}: {turned:?}");
    };
    let full = async || {
        let refused = post(api, "/v1/templates", &new).await;
        assert_over(&refused, 409, "QUOTA_EXCEEDED", "open_templates", 2);
        let mut connection = world.mysql().await;
        let now = world.clock.now();
        assert_eq!(quota::open_templates(&mut connection, id, now).await.unwrap(), 2);
        refused.json::<Value>().unwrap()["detail"].as_str().unwrap().to_owned()
    };
    let open = made(&new).await;
    let draft = made(&new).await;
    turned(&open, "publish").await;
    let said = full().await;
    let ways = ["Delete a draft", "end one whose window is not over"];
    assert!(ways.iter().all(|way| said.contains(way)), "{said}");

    // The end of one whose window is over makes no room: it did not count.
    let mut over = new.clone();
    over["claim_starts_at"] = json!(world.clock.now() - TimeDelta::hours(2));
    over["claim_ends_at"] = json!(world.clock.now() - TimeDelta::minutes(1));
    let over = made(&over).await;
    for verb in ["publish", "end"] {
        turned(&over, verb).await;
    }
    full().await;
    let deleted = send(api, Method::DELETE, &draft, &Value::Null).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    made(&new).await;
    full().await;
    turned(&open, "end").await;
    made(&new).await;
    full().await;
    world.end().await;
}

#[tokio::test]
async fn requests_at_once_have_no_more_views_rebuilt_than_a_merchant_may_in_an_hour() {
    let world = World::start_with("rebuilds in an hour", |options| {
        let limit = REBUILDS.to_string();
        PlatformOptions { apis: 2, ..options }.with_env("MERCHANT_VIEW_REBUILDS_PER_HOUR", &limit)
    })
    .await;
    let path = |user: usize| format!("/v1/users/{}/view-rebuild", user + 1);
    let hour = |now: DateTime<Utc>| (now.date_naive(), now.hour());
    // Repeat with another merchant if the hour changed meanwhile.
    loop {
        let began = hour(world.clock.now());
        let (id, apis) = merchant(&world).await;
        let answers = at_once(&apis, path, &Value::Null).await;
        if hour(world.clock.now()) != began {
            continue;
        }
        assert_eq!(of_status(&answers, 200).len(), REBUILDS, "{answers:?}");
        for refused in of_status(&answers, 429) {
            let quota = "view_rebuilds_per_hour";
            assert_over(refused, 429, "HOURLY_QUOTA_EXCEEDED", quota, REBUILDS);
            assert!(matches!(refused.retry_after, Some(1..=3_601)), "{refused:?}");
        }
        let lines =
            audit::page(&mut world.mysql().await, &Filter::of(id), None, 100).await.unwrap().lines;
        let rebuilds =
            lines.iter().filter_map(Listed::row).filter(|line| line.entry.action == "view.rebuild");
        assert_eq!(rebuilds.count(), REBUILDS);
        break;
    }
    assert_eq!(post(world.api(), &path(1), &Value::Null).await.status, 200);
    world.end().await;
}

/// Makes and publishes a template of a merchant.
async fn published(api: &Api, world: &World) -> TemplateId {
    let new = NewTemplate::simple("A sale", 100, world.clock.now(), TimeDelta::hours(1));
    let id = api.create(&new).await.unwrap().id;
    api.turn(id, "publish").await.unwrap();
    id
}

#[tokio::test]
async fn requests_at_once_have_no_more_gates_rebuilt_than_a_merchant_may_in_an_hour() {
    let world = World::start_with("gates in an hour", |options| {
        let limit = GATES.to_string();
        PlatformOptions { apis: 2, ..options }.with_env("MERCHANT_GATE_REBUILDS_PER_HOUR", &limit)
    })
    .await;
    let hour = |now: DateTime<Utc>| (now.date_naive(), now.hour());
    // Repeat with another merchant if the hour changed meanwhile.
    let template = loop {
        let began = hour(world.clock.now());
        let (id, apis) = merchant(&world).await;
        let template = published(&apis[0], &world).await;
        let path = |_| format!("/v1/templates/{template}/gate-rebuild");
        let answers = at_once(&apis, path, &Value::Null).await;
        if hour(world.clock.now()) != began {
            continue;
        }
        assert_eq!(of_status(&answers, 200).len(), GATES, "{answers:?}");
        let refused = of_status(&answers, 429);
        assert_eq!(refused.len(), AT_ONCE - GATES, "{answers:?}");
        for refused in refused {
            let quota = "gate_rebuilds_per_hour";
            assert_over(refused, 429, "HOURLY_QUOTA_EXCEEDED", quota, GATES);
        }
        let lines =
            audit::page(&mut world.mysql().await, &Filter::of(id), None, 100).await.unwrap().lines;
        let rebuilds =
            lines.iter().filter_map(Listed::row).filter(|line| line.entry.action == "gate.rebuild");
        assert_eq!(rebuilds.count(), GATES);
        break template;
    };
    // For the platform's own key its merchant's templates alone are there; it has no quota on them.
    let own = world.template(10, |new| new).await;
    for _ in 0..=GATES {
        let path = format!("/v1/templates/{own}/gate-rebuild");
        assert_eq!(post(world.api(), &path, &Value::Null).await.status, 200);
    }
    assert_ne!(own, template);
    world.end().await;
}

#[tokio::test]
async fn requests_at_once_leave_no_more_jobs_open_than_a_merchant_may_have() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("open jobs", two).await;
    let (_, apis) = merchant(&world).await;
    let template = published(&apis[0], &world).await;
    // So that no job ends.
    apis[0].turn(template, "pause").await.unwrap();
    let most = limit::JOBS_OPEN_MAX;
    let grant = |api: &Api, user: usize| {
        let body = json!({ "user_ids": [(user + 1).to_string()], "reason": "x" });
        let path = format!("/v1/templates/{template}/grants");
        let request = api.operator(Method::POST, &path).json(&body);
        request.header("idempotency-key", format!("k{user}"))
    };
    let answers = all_at_once(&apis, most + AT_ONCE, grant).await;
    let accepted = of_status(&answers, 202);
    assert_eq!(accepted.len(), most, "{answers:?}");
    let refused = of_status(&answers, 409);
    assert_eq!(refused.len(), AT_ONCE);
    for refused in refused {
        assert_over(refused, 409, "QUOTA_EXCEEDED", "open_jobs", most);
        let open: Value = refused.json().unwrap();
        assert_eq!(open["jobs"].as_array().unwrap().len(), most, "those that can be cancelled");
    }
    let mut connection = world.mysql().await;
    let jobs = mysql_store::verify::number(&mut connection, "select count(*) from job").await;
    assert_eq!(jobs.unwrap(), most as i64);

    // A job that has ended frees its place.
    let job: Value = accepted[0].json().unwrap();
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let cancelled = post(&apis[0], &format!("{job}/cancel"), &json!({ "reason": "x" })).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    let state = async || {
        let seen: Value = send(&apis[0], Method::GET, &job, &Value::Null).await.json().unwrap();
        seen.get("ended_at").is_some()
    };
    until(state, |ended| *ended).await;
    let [one, other] = [most + AT_ONCE, most + AT_ONCE + 1].map(|user| grant(&apis[0], user));
    assert_eq!(apis[0].send(one).await.unwrap().status, 202);
    assert_eq!(apis[0].send(other).await.unwrap().status, 409);
    world.end().await;
}

#[tokio::test]
async fn a_merchants_changes_in_an_hour_are_bounded_and_its_redemptions_are_not() {
    let world = World::start_with("changes in an hour", |options| {
        options.with_env("MERCHANT_CHANGES_PER_HOUR", "3")
    })
    .await;
    let (_, apis) = merchant(&world).await;
    let key = json!({ "name": "x", "scopes": ["read"] });
    let mut statuses = Vec::new();
    // Seven requests span at most two hours with three allowed in each, so the last is refused.
    for _ in 0..7 {
        statuses.push(post(&apis[0], "/v1/api-keys", &key).await);
    }
    let refused = statuses.last().unwrap();
    assert_over(refused, 429, "HOURLY_QUOTA_EXCEEDED", "changes_per_hour", 3);
    // A key that leaked can be revoked all the same.
    let made: Value = statuses[0].json().unwrap();
    let path = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
    assert_eq!(send(&apis[0], Method::DELETE, &path, &Value::Null).await.status, 204);
    world.end().await;
}

#[tokio::test]
async fn a_sale_can_be_stopped_although_the_changes_of_the_hour_are_used_up() {
    let world = World::start_with("stops beyond the quota", |options| {
        options.with_env("MERCHANT_CHANGES_PER_HOUR", "4")
    })
    .await;
    let (_, apis) = merchant(&world).await;
    let new = NewTemplate::simple("A sale", 9, world.clock.now(), TimeDelta::hours(1));
    let template = apis[0].publish_new(&new).await.unwrap().id;
    let key = json!({ "name": "x", "scopes": ["read"] });
    let use_up = async || {
        for _ in 0..9 {
            post(&apis[0], "/v1/api-keys", &key).await;
        }
    };
    let resume = format!("/v1/templates/{template}/resume");
    for verb in ["pause", "end"] {
        use_up().await;
        let stopped = apis[0].operator(Method::POST, &format!("/v1/templates/{template}/{verb}"));
        let stopped = apis[0].send(stopped.header("if-match", "*")).await.unwrap();
        assert_eq!(stopped.status, 200, "{verb}: {}", stopped.body);
        if verb == "pause" {
            let resumed = apis[0].send(apis[0].operator(Method::POST, &resume)).await.unwrap();
            assert_over(&resumed, 429, "HOURLY_QUOTA_EXCEEDED", "changes_per_hour", 4);
        }
    }
    world.end().await;
}
