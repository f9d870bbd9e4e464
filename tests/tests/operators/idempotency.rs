//! `Idempotency-Key` of operators' requests: a repeated request has no further effect and gets the same answer byte
//! by byte.

use std::sync::Arc;

use chrono::TimeDelta;
use coupon::UserId;
use devstack::PlatformOptions;
use futures::future::join_all;
use mysql_store::{
    audit::{self, Filter},
    merchant::PLATFORM,
    template,
};
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    until,
};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};
use tokio::sync::Barrier;

use crate::{
    claims::{
        faults::start_with,
        full::epochs::{flush, open_again, world_with_own_gate},
    },
    queued::{accepted, after_topic, shopper},
};

/// Concurrent requests with one key.
const AT_ONCE: usize = 8;

pub(crate) async fn post(api: &Api, path: &str, key: &str, body: &Value) -> Answer {
    let request = api.operator(Method::POST, path);
    let request = if key.is_empty() { request } else { request.header("idempotency-key", key) };
    let request = if body.is_null() { request } else { request.json(body) };
    api.send(request).await.unwrap()
}

/// The parts of an answer that must be equal.
pub(crate) fn content(answer: &Answer) -> (u16, String, Vec<Option<String>>) {
    let header = |name| answer.header(name).map(str::to_owned);
    let headers = ["location", "etag", "content-type"].map(header).to_vec();
    (answer.status, answer.body.clone(), headers)
}

fn draft(world: &World) -> Value {
    json!(NewTemplate::simple("A sale", 10, world.clock.now(), TimeDelta::hours(1)))
}

/// Counts the audit records in MySQL.
pub(crate) async fn recorded(world: &World) -> usize {
    let mut connection = world.mysql().await;
    audit::page(&mut connection, &Filter::of(PLATFORM), None, 10_000).await.unwrap().lines.len()
}

/// Counts the templates in MySQL.
async fn templates(world: &World) -> usize {
    template::page(&mut world.mysql().await, PLATFORM, None, 10_000).await.unwrap().len()
}

#[tokio::test]
async fn what_is_sent_again_under_its_key_is_done_once_and_answered_byte_by_byte_the_same() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("sent again", two).await;
    let api = world.api();
    let template = world.template(10, |new| new).await;
    api.shopper(UserId(7)).unwrap().claim(template, None, 1).await.unwrap();
    let key =
        post(api, "/v1/api-keys", "old", &json!({ "name": "till", "scopes": ["read"] })).await;
    let key = key.json::<Value>().unwrap()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/templates/{template}");
    let nothing = Value::Null;
    let soon = world.clock.now() + TimeDelta::days(1);
    for (path, body) in [
        ("/v1/templates", &draft(&world)),
        ("/v1/merchants", &json!({ "name": "A shop" })),
        ("/v1/api-keys", &json!({ "name": "x", "scopes": ["read"], "expires_at": soon })),
        (&format!("/v1/api-keys/{key}/rotate"), &json!({})),
        ("/v1/dead-letter-replays", &json!({ "from_offset": 3, "to_offset": 7 })),
        ("/v1/users/7/view-rebuild", &nothing),
        (&format!("{path}/gate-rebuild"), &nothing),
        (&format!("{path}/pause"), &nothing),
        (&format!("{path}/resume"), &nothing),
        (&format!("{path}/end"), &json!({ "confirm": "A sale" })),
        (&format!("{path}/clone"), &json!({ "name": "Another sale" })),
    ] {
        let first = post(api, path, "again", body).await;
        assert!(matches!(first.status, 200 | 201) && !first.replayed, "{path}: {first:?}");
        let lines = recorded(&world).await;
        for api in &world.apis {
            let again = post(api, path, "again", body).await;
            assert_eq!(content(&again), content(&first), "{path}");
            assert!(again.replayed, "{path}");
        }
        assert_eq!(recorded(&world).await, lines, "{path} has no second line");
        let other = post(api, path, "another", body).await;
        if first.status == 201 {
            assert_eq!(other.status, 201, "another key is another request: {other:?}");
            assert_ne!(other.body, first.body, "{path}");
        }
    }
    // A late repetition does not undo later changes by others: the template has ended.
    let late = post(api, &format!("{path}/pause"), "again", &nothing).await;
    assert_eq!(
        (late.status, late.json::<Value>().unwrap()["state"].as_str()),
        (200, Some("paused"))
    );
    assert_eq!(api.template(template).await.unwrap().state, "ended");
    world.assert_sound(None).await;
    world.end().await;
}

/// Each request changes a coupon once. A repetition of an earlier one does not undo a later extension by others.
#[tokio::test]
async fn what_a_desk_sends_again_changes_its_coupon_once_and_another_wish_under_the_key_not_at_all()
{
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("desk again", two).await;
    let api = world.api();
    let template = world.template(10, |new| new).await;
    let days =
        |days| json!({ "valid_until": world.clock.now() + TimeDelta::days(days), "reason": "x" });
    let reason = json!({ "reason": "x" });
    for (user, change, body, other) in [
        (1, "revoke", reason.clone(), json!({ "reason": "y" })),
        (2, "extend", days(30), days(60)),
        (3, "replace", reason.clone(), json!({ "reason": "y" })),
    ] {
        let claim = api.shopper(UserId(user)).unwrap().claim(template, None, 1).await.unwrap();
        let claimed: Claimed = claim.json().unwrap();
        let path = format!("/v1/coupons/{}/{change}", claimed.coupons[0].id);
        let first = post(api, &path, "again", &body).await;
        assert!(first.status == 200 && !first.replayed, "{change}: {first:?}");
        let lines = recorded(&world).await;
        let reused = post(api, &path, "again", &other).await;
        assert_eq!(
            (reused.status, reused.code().as_deref()),
            (422, Some("IDEMPOTENCY_KEY_REUSED"))
        );
        for api in &world.apis {
            let again = post(api, &path, "again", &body).await;
            assert_eq!((content(&again), again.replayed), (content(&first), true), "{change}");
        }
        assert_eq!(recorded(&world).await, lines, "{change} has one line");
        if change == "extend" {
            let later = post(api, &path, "later", &other).await;
            assert_eq!(later.status, 200, "{later:?}");
            let again = post(api, &path, "again", &body).await;
            assert_eq!((content(&again), again.replayed), (content(&first), true));
            let ends = "select count(*) from user_coupon where user_id = 2 and version = 3 \
                        and valid_until > utc_timestamp(3) + interval 59 day";
            let number = mysql_store::verify::number(&mut world.mysql().await, ends).await;
            assert_eq!(number.unwrap(), 1, "the later end stands");
        }
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_new_key_is_shown_again_to_who_asked_for_it_and_is_not_to_be_read_in_mysql() {
    let world = World::start("shown again").await;
    let api = world.api();
    let wish = json!({ "name": "first", "scopes": ["admin"] });
    let answer = post(api, "/v1/api-keys", "k", &wish).await;
    let secret = answer.json::<Value>().unwrap()["key"].as_str().unwrap().to_owned();
    let own = api.with_operator_key(&secret);
    assert_eq!(post(&own, "/v1/templates", "", &draft(&world)).await.status, 201);
    // The same key and request from another operator's API key conflicts with the first.
    let other = post(&own, "/v1/api-keys", "k", &wish).await;
    assert_eq!((other.status, other.code().as_deref()), (422, Some("IDEMPOTENCY_KEY_REUSED")));
    let again = post(api, "/v1/api-keys", "k", &wish).await;
    assert_eq!(content(&again), content(&answer));
    let shown = "update idempotent_request set head = head where body like ";
    let like = |text: &str| format!("{shown}'%{}%'", text.replace('_', "\\_"));
    let mut connection = world.mysql().await;
    let mut count =
        async |text| mysql_store::verify::execute(&mut connection, &like(text)).await.unwrap();
    assert_eq!(count("\"name\":\"first\"").await, 1, "the answer is kept");
    // `ck_<id>_<secret>`, and the secret may contain an underscore.
    let random = secret.splitn(3, '_').nth(2).unwrap();
    assert_eq!(count(random).await, 0, "and its secret is not");
    world.end().await;
}

#[tokio::test]
async fn requests_at_once_under_one_key_are_done_once() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("one key at once", two).await;
    let body = draft(&world);
    let before = templates(&world).await;
    let lines = recorded(&world).await;
    let barrier = Arc::new(Barrier::new(AT_ONCE));
    let answers = join_all((0..AT_ONCE).map(|number| {
        let api = &world.apis[number % 2];
        let barrier = Arc::clone(&barrier);
        let body = &body;
        async move {
            barrier.wait().await;
            post(api, "/v1/templates", "one", body).await
        }
    }))
    .await;
    for answer in &answers {
        assert_eq!(content(answer), content(&answers[0]));
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    assert_eq!((templates(&world).await, recorded(&world).await), (before + 1, lines + 1));
    world.end().await;
}

#[tokio::test]
async fn a_key_stands_for_one_request_of_its_route_and_what_was_refused_does_not_take_it() {
    let world = World::start("one request a key").await;
    let api = world.api();
    let mut body = draft(&world);
    body["name"] = json!("");
    let refused = post(api, "/v1/templates", "k", &body).await;
    assert_eq!((refused.status, refused.code().as_deref()), (422, Some("INVALID_TEMPLATE")));
    body["name"] = json!("A sale");
    assert_eq!(post(api, "/v1/templates", "k", &body).await.status, 201);
    body["name"] = json!("Another");
    let other = post(api, "/v1/templates", "k", &body).await;
    assert_eq!((other.status, other.code().as_deref()), (422, Some("IDEMPOTENCY_KEY_REUSED")));
    // Keys are separate for each route.
    assert_eq!(post(api, "/v1/merchants", "k", &json!({ "name": "A shop" })).await.status, 201);
    let wrong = post(api, "/v1/templates", "~k", &body).await;
    assert_eq!((wrong.status, wrong.code().as_deref()), (400, Some("IDEMPOTENCY_KEY_INVALID")));
    assert_eq!(templates(&world).await, 1);
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_drain_that_is_sent_again_is_answered_again_and_ends_no_other() {
        let (gate, mut world) = world_with_own_gate("idempotent-drain").await;
        let template = world.template(20, after_topic).await;
        let name = world.api().template(template).await.unwrap().name;
        let path = format!("/v1/templates/{template}/drain-end");
        let body = json!({ "confirm": name });
        world.platform.lander.pause().unwrap();
        let mut promises = Promises::default();
        accepted(&mut promises, &shopper(&world, 0, 1), template).await;
        flush(&gate).await;
        let end_drain = async || post(world.api(), &path, "k", &body).await;
        // A gate that was lost is being loaded a moment after.
        let first = until(end_drain, |answer| answer.status == 200).await;
        let lines = recorded(&world).await;
        open_again(&world, template, 0).await;
        let again = post(world.api(), &path, "k", &body).await;
        assert_eq!((content(&again), again.replayed), (content(&first), true));
        assert_eq!(recorded(&world).await, lines);
        let other = post(world.api(), &path, "other", &body).await;
        assert_eq!((other.status, other.code().as_deref()), (409, Some("NO_DRAIN")));
        world.platform.lander.resume().unwrap();
        let lost = Ends { lost: 1, ..Ends::default() };
        assert_eq!(promises.kept(&world).await, lost);
        world.end().await;
    }

    #[tokio::test]
    async fn what_may_have_been_done_is_only_to_be_sent_again_under_a_key() {
        let mut world = World::start("may have been done").await;
        start_with(
            &mut world.platform.apis[0],
            "FAIL_POINTS",
            &["api.before_commit=error"; 4].join(","),
        )
        .await;
        let api = world.api();
        let body = draft(&world);
        let merchant = json!({ "name": "A shop" });
        for (path, body) in [("/v1/templates", &body), ("/v1/merchants", &merchant)] {
            let without = post(api, path, "", body).await;
            assert_eq!(
                (without.status, without.code().as_deref()),
                (503, Some("STORE_UNAVAILABLE"))
            );
            let problem: Value = without.json().unwrap();
            assert_eq!(
                (&problem["retryable"], without.retry_after),
                (&json!(false), None),
                "{problem}"
            );
            assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{problem}");
            let with = post(api, path, "k", body).await;
            assert_eq!(with.json::<Value>().unwrap()["retryable"], true, "{with:?}");
            assert!(with.retry_after.is_some());
        }
        start_with(&mut world.platform.apis[0], "FAIL_POINTS", "").await;
        let api = world.api();
        for answer in [
            post(api, "/v1/templates", "k", &body).await,
            post(api, "/v1/merchants", "k", &merchant).await,
        ] {
            assert!(answer.status == 201 && !answer.replayed, "nothing had been done: {answer:?}");
        }
        assert_eq!(templates(&world).await, 1);
        world.end().await;
    }
}
