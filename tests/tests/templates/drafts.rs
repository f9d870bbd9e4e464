//! Copies of templates, deletion of drafts, and signs that an end or a cut is meant.

use chrono::TimeDelta;
use coupon::TemplateId;
use devstack::PlatformOptions;
use mysql_store::{stock, template};
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, NewTemplate};

/// Rounds of the race between a deletion and a publication.
const ROUNDS: usize = 8;

async fn send(api: &Api, method: Method, path: &str, body: &Value) -> Answer {
    let request = api.operator(method, path);
    let request = if body.is_null() { request } else { request.json(body) };
    api.send(request).await.unwrap()
}

fn path(template: TemplateId) -> String {
    format!("/v1/templates/{template}")
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap_or_default())
}

async fn draft(world: &World, name: &str) -> TemplateId {
    let new = NewTemplate::simple(name, 10, world.clock.now(), TimeDelta::hours(1));
    world.api().create(&new).await.unwrap().id
}

/// Whether MySQL has any row of the template.
async fn is_stored(world: &World, id: TemplateId) -> bool {
    let mut connection = world.mysql().await;
    let row = template::get(&mut connection, id).await.unwrap();
    let account = stock::get(&mut connection, id).await.unwrap();
    let movements = stock::movements_after(&mut connection, id, 0).await.unwrap();
    assert_eq!(row.is_some(), account.is_some());
    assert_eq!(row.is_some(), !movements.is_empty());
    row.is_some()
}

#[tokio::test]
async fn a_copy_has_every_term_of_its_template_and_nothing_of_its_life() {
    let world = World::start("clone").await;
    let api = world.api();
    let terms = json!({
        "name": "Half price", "total_stock": 7, "per_user_limit": 5, "max_per_claim": 2,
        "discount": { "kind": "percent_off", "percent_off": "50", "cap_minor": 900, "minimum_spend_minor": 100, "currency": "CHF" },
        "claim_starts_at": "2020-01-01T00:00:00Z", "claim_ends_at": "2036-01-02T00:00:00Z",
        "valid_from": "2020-01-01T00:00:00Z", "valid_until": "2036-02-01T00:00:00Z",
        "self_redeem": true, "stackable": false
    });
    let made: Value = send(api, Method::POST, "/v1/templates", &terms).await.json().unwrap();
    let id: TemplateId = made["id"].as_str().unwrap().parse().unwrap();
    api.turn(id, "publish").await.unwrap();
    let original: Value = send(api, Method::GET, &path(id), &Value::Null).await.json().unwrap();
    let copy = send(api, Method::POST, &format!("{}/clone", path(id)), &Value::Null).await;
    assert_eq!(copy.status, 201, "{copy:?}");
    let location = copy.header("location").unwrap().to_owned();
    let shown: Value = send(api, Method::GET, &location, &Value::Null).await.json().unwrap();
    let changed: Vec<&str> = original
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, value)| shown[name.as_str()] != **value)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(changed, ["id", "name", "state", "version"], "{original} {shown}");
    assert_eq!((&shown["name"], &shown["state"]), (&json!("Half price (copy)"), &json!("draft")));

    // What is shown can be sent as a new template, without the fields that only an answer has.
    let mut again = shown.clone();
    for only_shown in ["id", "state", "version", "discount_text"] {
        again.as_object_mut().unwrap().remove(only_shown);
    }
    let twin = send(api, Method::POST, "/v1/templates", &again).await;
    assert_eq!(twin.status, 201, "{twin:?}");
    let twin: Value = send(api, Method::GET, twin.header("location").unwrap(), &Value::Null)
        .await
        .json()
        .unwrap();
    let without_id = |mut template: Value| {
        template.as_object_mut().unwrap().remove("id");
        template
    };
    assert_eq!(without_id(twin), without_id(shown));

    let other =
        json!({ "name": "Spring", "total_stock": 3, "claim_ends_at": "2036-03-01T00:00:00Z" });
    let other = send(api, Method::POST, &format!("{}/clone", path(id)), &other).await;
    let location = other.header("location").unwrap().to_owned();
    let other: Value = send(api, Method::GET, &location, &Value::Null).await.json().unwrap();
    assert_eq!((&other["name"], &other["total_stock"]), (&json!("Spring"), &json!(3)));
    assert_eq!(other["claim_ends_at"], "2036-03-01T00:00:00.000Z");
    for (body, status, code) in [
        (json!({ "name": " " }), 422, "INVALID_TEMPLATE"),
        (json!({ "total_stock": -1 }), 422, "INVALID_TEMPLATE"),
        (json!({ "claim_ends_at": "2019-01-01T00:00:00Z" }), 422, "INVALID_TEMPLATE"),
        (json!({ "state": "published" }), 400, "MALFORMED_BODY"),
    ] {
        let answer = send(api, Method::POST, &format!("{}/clone", path(id)), &body).await;
        assert_eq!(refused(&answer), (status, code.to_owned()), "{body}");
    }
    let nothing = send(api, Method::POST, "/v1/templates/1/clone", &Value::Null).await;
    assert_eq!(refused(&nothing), (404, "TEMPLATE_NOT_FOUND".to_owned()));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_draft_is_deleted_with_its_rows_once_and_nothing_that_was_published_ever() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("delete", two).await;
    let api = world.api();
    let id = draft(&world, "A draft").await;
    let movement = api.operator(Method::POST, &format!("{}/stock-movements", path(id)));
    let movement = movement.header("idempotency-key", "more");
    let movement = movement.json(&json!({ "delta": 5, "reason": "more" }));
    assert_eq!(api.send(movement).await.unwrap().status, 201);
    // A change of validity that coupons follow has a row too.
    let follow = json!({ "version": 1, "valid_for_ms": 5_000, "issued_coupons": "follow" });
    assert_eq!(send(api, Method::PATCH, &path(id), &follow).await.status, 200);

    let stale = api.operator(Method::DELETE, &path(id)).header("if-match", "\"1\"");
    assert_eq!(refused(&api.send(stale).await.unwrap()), (412, "PRECONDITION_FAILED".to_owned()));
    assert!(is_stored(&world, id).await);
    // The second time it is gone already: the same answer by either api, and one line of the record.
    for api in &world.apis {
        assert_eq!(send(api, Method::DELETE, &path(id), &Value::Null).await.status, 204);
        assert!(!is_stored(&world, id).await);
    }
    let record = format!("/v1/audit?target=templates/{id}");
    let record: Value = send(api, Method::GET, &record, &Value::Null).await.json().unwrap();
    let actions = record["data"].as_array().unwrap().iter();
    let deleted: Vec<&Value> = actions.filter(|line| line["action"] == "template.delete").collect();
    assert_eq!(deleted.len(), 1, "{record}");
    assert_eq!(deleted[0]["before"]["name"], "A draft");
    let unknown = (404, "TEMPLATE_NOT_FOUND".to_owned());
    for (method, sub) in
        [(Method::GET, ""), (Method::GET, "/movements"), (Method::POST, "/publish")]
    {
        let answer = send(api, method, &format!("{}{sub}", path(id)), &Value::Null).await;
        assert_eq!(refused(&answer), unknown, "{sub}");
    }
    assert_eq!(refused(&send(api, Method::DELETE, "/v1/templates/1", &Value::Null).await), unknown);

    let kept = world.template(3, |new| new).await;
    for verb in ["", "pause", "end"] {
        if !verb.is_empty() {
            api.turn(kept, verb).await.unwrap();
        }
        let answer = send(api, Method::DELETE, &path(kept), &Value::Null).await;
        assert_eq!(refused(&answer), (409, "INVALID_TRANSITION".to_owned()), "{verb}");
    }
    for _ in 0..ROUNDS {
        let id = draft(&world, "Now or never").await;
        let publish = format!("{}/publish", path(id));
        let draft = path(id);
        let (deleted, published) = tokio::join!(
            send(&world.apis[0], Method::DELETE, &draft, &Value::Null),
            send(&world.apis[1], Method::POST, &publish, &Value::Null),
        );
        let either = match (deleted.status, published.status) {
            (204, 404 | 409) => false,
            (409, 200) => true,
            other => panic!("{other:?}: {deleted:?} {published:?}"),
        };
        assert_eq!(is_stored(&world, id).await, either);
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn an_end_and_a_cut_are_meant_by_name_or_by_version() {
    let world = World::start("confirm").await;
    let api = world.api();
    let id = world.template(10, |new| new).await;
    let needed = (428, "CONFIRMATION_REQUIRED".to_owned());
    let cut = async |key: &str, body: &Value, tag: Option<&str>| {
        let request = api.operator(Method::POST, &format!("{}/stock-movements", path(id)));
        let request = request.header("idempotency-key", key).json(body);
        let request = tag.into_iter().fold(request, |ask, tag| ask.header("if-match", tag));
        api.send(request).await.unwrap()
    };
    let less = json!({ "delta": -2, "reason": "less" });
    let named = |name: &str| json!({ "delta": -2, "reason": "less", "confirm": name });
    assert_eq!(refused(&cut("a", &less, None).await), needed);
    assert_eq!(refused(&cut("a", &named("a sale"), None).await), needed);
    assert_eq!(refused(&cut("a", &named("Another"), Some("*")).await), needed);
    assert_eq!(api.stock(id).await.unwrap().total, 10, "nothing was cut");
    assert_eq!(cut("a", &named("A sale"), None).await.status, 201);
    assert_eq!(cut("b", &less, Some("\"2\"")).await.status, 201);
    let again = cut("b", &less, None).await;
    assert_eq!((again.status, again.replayed), (201, true), "it was meant");
    assert_eq!(api.stock(id).await.unwrap().total, 6);
    let more = json!({ "delta": 1, "reason": "more" });
    assert_eq!(cut("c", &more, None).await.status, 201, "a top-up needs no sign");

    let end = format!("{}/end", path(id));
    for body in [Value::Null, json!({}), json!({ "confirm": "" }), json!({ "confirm": "Sale" })] {
        assert_eq!(refused(&send(api, Method::POST, &end, &body).await), needed, "{body}");
    }
    let odd = send(api, Method::POST, &end, &json!({ "sure": true })).await;
    assert_eq!(refused(&odd), (400, "MALFORMED_BODY".to_owned()));
    assert_eq!(api.template(id).await.unwrap().state, "published");
    let meant = json!({ "confirm": "A sale" });
    assert_eq!(send(api, Method::POST, &end, &meant).await.status, 200);
    assert_eq!(send(api, Method::POST, &end, &Value::Null).await.status, 200, "it has ended");
    world.assert_sound(None).await;
    world.end().await;
}
