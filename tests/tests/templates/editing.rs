//! Edits of templates: by version, by state, and of a claim window while it is open.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{TemplateId, UserId};
use devstack::PlatformOptions;
use mysql_store::verify;
use pipeline_tests::{World, histories, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, NewTemplate, Wish};

async fn send(
    api: &Api,
    method: Method,
    path: &str,
    if_match: Option<&str>,
    body: &Value,
) -> Answer {
    let request = api.operator(method, path);
    let request = if path.ends_with("/stock-movements") {
        request.header("idempotency-key", "one-key")
    } else {
        request
    };
    let request = if_match.into_iter().fold(request, |ask, tag| ask.header("if-match", tag));
    let request = if body.is_null() { request } else { request.json(body) };
    api.send(request).await.unwrap()
}

fn path(template: TemplateId) -> String {
    format!("/v1/templates/{template}")
}

async fn edit(api: &Api, template: TemplateId, if_match: &str, body: &Value) -> Answer {
    send(api, Method::PATCH, &path(template), Some(if_match), body).await
}

/// Edits the template's current version, and returns it.
async fn edited(api: &Api, template: TemplateId, body: &Value) -> Value {
    let answer = edit(api, template, "*", body).await;
    assert_eq!(answer.status, 200, "{body}: {answer:?}");
    answer.json().unwrap()
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap_or_default())
}

async fn draft(world: &World) -> TemplateId {
    let new = NewTemplate::simple("A sale", 10, world.clock.now(), TimeDelta::hours(1));
    world.api().create(&new).await.unwrap().id
}

#[tokio::test]
async fn each_answer_that_is_a_template_has_its_tag_and_a_stale_one_changes_nothing() {
    let world = World::start("tags").await;
    let api = world.api();
    let nothing = Value::Null;
    let template = draft(&world).await;
    let at = |sub: &str| format!("{}{sub}", path(template));
    let ask =
        async |sub: &str, tag: Option<&str>| send(api, Method::POST, &at(sub), tag, &nothing).await;
    let tag = |answer: &Answer| answer.header("etag").unwrap_or_default().to_owned();
    let seen = send(api, Method::GET, &at(""), None, &nothing).await;
    assert_eq!((seen.status, tag(&seen).as_str()), (200, "\"1\""));

    let failed = (412, "PRECONDITION_FAILED".to_owned());
    for stale in ["\"2\"", "W/\"1\"", "\"01\"", "\"2\", \"3\"", "\"\""] {
        let answer = ask("/publish", Some(stale)).await;
        assert_eq!(refused(&answer), failed, "{stale}");
        assert_eq!(answer.json::<Value>().unwrap()["version"], 1);
    }
    for malformed in ["1", "\"1", "\"1\" \"2\"", "*, \"1\""] {
        let answer = ask("/publish", Some(malformed)).await;
        assert_eq!(refused(&answer), (400, "IF_MATCH_INVALID".to_owned()), "{malformed}");
    }
    // A retry after a lost answer gets the same answer.
    for _ in 0..2 {
        let answer = ask("/publish", Some("\"7\", \"1\"")).await;
        assert_eq!((answer.status, tag(&answer).as_str()), (200, "\"2\""), "{answer:?}");
    }
    assert_eq!(ask("/pause", Some("\"2\"")).await.status, 200);
    assert_eq!(refused(&ask("/resume", Some("\"2\"")).await), failed);
    assert_eq!(ask("/resume", Some("*")).await.status, 200);

    let name = json!({ "name": "Another" });
    let unsaid = send(api, Method::PATCH, &at(""), None, &name).await;
    assert_eq!(refused(&unsaid), (428, "PRECONDITION_REQUIRED".to_owned()));
    assert_eq!(refused(&edit(api, template, "\"3\"", &name).await), failed);
    for _ in 0..2 {
        let answer = edit(api, template, "\"4\"", &name).await;
        assert_eq!((answer.status, tag(&answer).as_str()), (200, "\"5\""), "{answer:?}");
    }
    let both = json!({ "name": "A third", "version": 4 });
    assert_eq!(
        refused(&edit(api, template, "\"5\"", &both).await),
        (409, "CHANGED_MEANWHILE".to_owned())
    );

    let movement = json!({ "delta": 5, "reason": "more" });
    let moved = async |tag| send(api, Method::POST, &at("/stock-movements"), tag, &movement).await;
    assert_eq!(refused(&moved(Some("\"4\"")).await), failed);
    assert_eq!(api.stock(template).await.unwrap().total, 10, "nothing was moved");
    assert_eq!(moved(Some("\"5\"")).await.status, 201);
    let again = moved(Some("\"4\"")).await;
    assert_eq!((again.status, again.replayed), (201, true), "it stands, whatever came since");
    assert_eq!(api.stock(template).await.unwrap().total, 15);
    assert_eq!(api.template(template).await.unwrap().version, 5);
    world.assert_sound(None).await;
    world.end().await;
}

/// An edit of each field, with the field's name in a refusal.
fn edits(now: DateTime<Utc>) -> Vec<(&'static str, Value)> {
    let free = json!({ "kind": "free_shipping", "minimum_spend_minor": 900, "currency": "EUR" });
    vec![
        ("name", json!({ "name": "Renamed" })),
        ("discount", json!({ "discount": free })),
        ("per_user_limit", json!({ "per_user_limit": 3 })),
        ("max_per_claim", json!({ "max_per_claim": 2, "per_user_limit": 3 })),
        ("claim_starts_at", json!({ "claim_starts_at": now - TimeDelta::hours(2) })),
        ("claim_ends_at", json!({ "claim_ends_at": now + TimeDelta::hours(5) })),
        ("validity", json!({ "valid_for_ms": 5_000_000 })),
        ("total_stock", json!({ "total_stock": 11 })),
    ]
}

#[tokio::test]
async fn what_was_promised_is_edited_in_a_draft_only_and_after_the_end_the_name() {
    let world = World::start("editable").await;
    let api = world.api();
    let running = ["name", "claim_ends_at", "validity"];
    for (verbs, state, editable) in [
        (&[] as &[&str], "draft", None),
        (&["publish"], "published", Some(&running as &[&str])),
        (&["publish", "pause"], "paused", Some(&running)),
        (&["publish", "end"], "ended", Some(&["name"])),
    ] {
        let template = draft(&world).await;
        for verb in verbs {
            api.turn(template, verb).await.unwrap();
        }
        for (field, body) in edits(world.clock.now().trunc_subsecs(3)) {
            let answer = edit(api, template, "*", &body).await;
            let answered: Value = answer.json().unwrap();
            let may = field != "total_stock" && editable.is_none_or(|some| some.contains(&field));
            assert_eq!(answer.status, if may { 200 } else { 409 }, "{field} {state}: {answer:?}");
            if may {
                let (name, wanted) = body.as_object().unwrap().iter().next().unwrap();
                let time = |value: &Value| {
                    value.as_str().and_then(|text| text.parse::<DateTime<Utc>>().ok())
                };
                let same = if name == "discount" {
                    answered[name]["minimum_spend_minor"] == wanted["minimum_spend_minor"]
                } else if name.starts_with("claim_") {
                    time(&answered[name]) == time(wanted)
                } else {
                    &answered[name] == wanted
                };
                assert!(same, "{field} {state}: {answered}");
            } else {
                let code = (answered["code"].as_str(), answered["state"].as_str());
                assert_eq!(code, (Some("FIELD_NOT_EDITABLE"), Some(state)), "{answered}");
                // Of two fields that may not be changed, the first is reported.
                assert!(answered["field"] == field || field == "max_per_claim", "{answered}");
            }
        }
        // The current value may be sent in every state.
        let now = api.template(template).await.unwrap();
        let same = edited(api, template, &json!({ "name": now.name })).await;
        assert_eq!(same["version"], now.version, "nothing changes");
    }
    let template = world.template(10, |new| new).await;
    let second = TimeDelta::seconds(1);
    let now = world.clock.now();
    for body in [
        json!({}),
        json!({ "issued_coupons": "keep" }),
        json!({ "issued_coupons": "follow", "name": "x" }),
        json!({ "name": " " }),
        json!({ "claim_ends_at": now - second }),
        json!({ "claim_ends_at": now - TimeDelta::days(1) }),
        json!({ "valid_for_ms": 0 }),
    ] {
        let answer = edit(api, template, "*", &body).await;
        assert_eq!(refused(&answer), (422, "INVALID_TEMPLATE".to_owned()), "{body}");
    }
    assert_eq!(api.template(template).await.unwrap().version, 2);
    world.end().await;
}

/// The edit is checked before the start, and written after it: users may have claimed meanwhile.
async fn assert_that_a_start_stays_that_comes_while_its_edit_waits(world: &World) {
    let start = (world.clock.now() + TimeDelta::seconds(2)).trunc_subsecs(3);
    let soon = |new| NewTemplate { claim_starts_at: start, ..new };
    let template = world.template(10, soon).await;
    let mut holder = world.mysql().await;
    let hold = format!("update coupon_template set name = name where id = {template}");
    verify::execute(&mut holder, "set autocommit = 0").await.unwrap();
    verify::execute(&mut holder, &hold).await.unwrap();
    let later = json!({ "claim_starts_at": start + TimeDelta::minutes(5) });
    let release = async {
        until(async || world.clock.now(), |now| *now > start).await;
        verify::execute(&mut holder, "rollback").await.unwrap();
    };
    let (answer, ()) = tokio::join!(edit(world.api(), template, "*", &later), release);
    assert_eq!(refused(&answer), (409, "FIELD_NOT_EDITABLE".to_owned()), "{answer:?}");
    assert_eq!(world.api().template(template).await.unwrap().version, 2, "as it was published");
}

#[tokio::test]
async fn a_template_whose_validity_is_over_is_not_published_until_it_has_another() {
    let world = World::start("validity over").await;
    let api = world.api();
    let mut body = json!(NewTemplate::simple("A sale", 10, world.clock.now(), TimeDelta::hours(1)));
    let fields = body.as_object_mut().unwrap();
    fields.remove("valid_for_ms");
    fields.insert("valid_from".to_owned(), json!("2020-01-01T00:00:00Z"));
    fields.insert("valid_until".to_owned(), json!("2020-01-02T00:00:00Z"));
    let send = async |method, path: &str, body: &Value| {
        api.send(api.operator(method, path).json(body)).await.unwrap()
    };
    let made: Value = send(Method::POST, "/v1/templates", &body).await.json().unwrap();
    let path = format!("/v1/templates/{}", made["id"].as_str().unwrap());
    let publish = format!("{path}/publish");
    let refused = send(Method::POST, &publish, &json!({})).await;
    assert_eq!((refused.status, refused.code().as_deref()), (409, Some("VALIDITY_OVER")));
    assert_eq!(refused.json::<Value>().unwrap()["retryable"], false);
    let edit = json!({ "version": 1, "valid_for_ms": 60_000 });
    assert_eq!(send(Method::PATCH, &path, &edit).await.status, 200);
    assert_eq!(send(Method::POST, &publish, &json!({})).await.status, 200);
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_start_moves_while_it_is_ahead_and_whoever_claims_by_any_api_meets_the_new_one() {
        let two = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("moved start", two).await;
        let now = world.clock.now();
        let ahead = |new| NewTemplate { claim_starts_at: now + TimeDelta::minutes(2), ..new };
        let template = world.template(10, ahead).await;
        let next = AtomicI64::new(1);
        let claim = async |api: &Api| {
            let user = UserId(next.fetch_add(1, Ordering::Relaxed));
            api.shopper(user).unwrap().claim(template, None, 1).await.unwrap()
        };
        let not_open = (409, "NOT_OPEN".to_owned());
        // Its gate is loaded, and hears of a start that is far ahead.
        let far = now + TimeDelta::minutes(50);
        edited(world.api(), template, &json!({ "claim_starts_at": far })).await;
        for api in &world.apis {
            until(async || refused(&claim(api).await), |answer| *answer == not_open).await;
        }
        let past = json!({ "claim_starts_at": world.clock.now() - TimeDelta::seconds(1) });
        let answer = edit(world.api(), template, "*", &past).await;
        assert_eq!(refused(&answer), (422, "INVALID_TEMPLATE".to_owned()));
        // Earlier, but not before now.
        let soon = (world.clock.now() + TimeDelta::seconds(2)).trunc_subsecs(3);
        edited(&world.apis[1], template, &json!({ "claim_starts_at": soon })).await;
        for api in &world.apis {
            until(async || claim(api).await.status, |status| *status == 201).await;
            assert!(world.clock.now() >= soon, "nobody is served before");
        }
        let later = json!({ "claim_starts_at": world.clock.now() + TimeDelta::minutes(1) });
        let answer = edit(world.api(), template, "*", &later).await;
        assert_eq!(refused(&answer), (409, "FIELD_NOT_EDITABLE".to_owned()), "it has come");
        assert_eq!(answer.json::<Value>().unwrap()["editable_in"], json!(["draft"]));
        assert_that_a_start_stays_that_comes_while_its_edit_waits(&world).await;
        world.assert_sound(None).await;
        world.end().await;
    }

    #[tokio::test]
    async fn a_window_that_is_moved_closes_and_opens_for_whoever_claims_by_any_api() {
        let two = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("moved window", two).await;
        let template = world.template(100_000, |new| new).await;
        // A new user each time: a user who holds a coupon gets it again, whether the window is open or not.
        // A poll every 10 ms takes some hundreds until the window closes.
        let next = AtomicI64::new(1);
        let claim = async |api: &Api| {
            let user = UserId(next.fetch_add(1, Ordering::Relaxed));
            api.shopper(user).unwrap().claim(template, None, 1).await.unwrap()
        };
        for api in &world.apis {
            assert_eq!(claim(api).await.status, 201);
        }
        let ends_at = (world.clock.now() + TimeDelta::seconds(2)).trunc_subsecs(3);
        let sooner = edited(world.api(), template, &json!({ "claim_ends_at": ends_at })).await;
        assert_eq!(sooner["version"], 3);
        for api in &world.apis {
            let closed = |answer: &Answer| refused(answer) == (409, "CLOSED".to_owned());
            until(async || claim(api).await, closed).await;
            assert!(world.clock.now() >= ends_at);
        }
        // Reopened by the other api while the template is paused.
        let later = world.clock.now() + TimeDelta::hours(1);
        world.api().turn(template, "pause").await.unwrap();
        edited(&world.apis[1], template, &json!({ "claim_ends_at": later })).await;
        assert_eq!(refused(&claim(&world.apis[1]).await), (409, "PAUSED".to_owned()));
        world.api().turn(template, "resume").await.unwrap();
        for api in &world.apis {
            until(async || claim(api).await.status, |status| *status == 201).await;
        }
        world.assert_sound(None).await;
        world.end().await;
    }

    #[tokio::test]
    async fn claims_go_on_through_moves_of_their_window_and_none_is_lost_or_doubled() {
        let two = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("window race", two).await;
        let template = world.template(3_000, |new| new).await;
        let wave = |users: std::ops::Range<i64>| -> Vec<Wish> {
            users.map(|user| Wish::one(template, UserId(user))).collect()
        };
        let crowd = world.crowd();
        let wishes = wave(1..2_501);
        let running = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        for (round, api) in (1..).zip([0, 1, 0, 1]) {
            world.until(template, |counts| counts.all() >= 300 * round).await;
            let hours = TimeDelta::hours(round + 1);
            let body = json!({ "claim_ends_at": world.clock.now() + hours });
            // The gate may be loading because of the previous edit, or by a keeper.
            until(
                async || edit(&world.apis[api], template, "*", &body).await.status,
                |it| *it == 200,
            )
            .await;
        }
        let first = running.await.unwrap();
        let last = world.crowd().run(wave(2_501..3_501)).await.unwrap();
        assert_eq!(world.count(template).await.all(), 3_000, "exactly the total");
        world.assert_sound(Some(&histories(vec![first, last]))).await;
        world.end().await;
    }
}
