//! The audit record of operators' actions: one line for each action, none for refused or repeated requests.

use chrono::TimeDelta;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, NewTemplate};

/// The trace id of every request of a test.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn send(api: &Api, method: Method, path: &str, body: &Value) -> Answer {
    let request = api.operator(method, path).header("idempotency-key", "one-key");
    let request = request.header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"));
    let request = if body.is_null() { request } else { request.json(body) };
    api.send(request).await.unwrap()
}

/// Returns the whole record, newest first, read in small pages.
async fn record(api: &Api, query: &str) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/audit?limit=4{query}{cursor}");
        let answer = send(api, Method::GET, &path, &Value::Null).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let page: Value = answer.json().unwrap();
        lines.extend(page["data"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { return lines };
        cursor = format!("&cursor={next}");
    }
}

fn actions(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["action"].as_str().unwrap()).collect()
}

/// Sends the requests of a template's life from its draft on, including refused and repeated ones.
async fn walk(api: &Api, path: &str) {
    let nothing = Value::Null;
    let post = Method::POST;
    let week = json!({ "version": 5, "valid_for_ms": 604_800_000, "issued_coupons": "follow" });
    let name = json!({ "version": 6, "name": "Renamed" });
    for (method, sub, body, status) in [
        (&post, "/pause", &nothing, 409),
        (&post, "/publish", &nothing, 200),
        (&post, "/publish", &nothing, 200),
        (&post, "/pause", &nothing, 200),
        (&post, "/resume", &nothing, 200),
        (&post, "/stock-movements", &json!({ "delta": 5, "reason": "more" }), 201),
        (&post, "/stock-movements", &json!({ "delta": 5, "reason": "more" }), 201),
        (&post, "/stock-movements", &json!({ "delta": 6, "reason": "more" }), 422),
        (&Method::PATCH, "", &json!({ "version": 1, "name": "x" }), 409),
        (
            &Method::PATCH,
            "",
            &json!({ "version": 4, "discount": { "kind": "free_shipping", "currency": "EUR" } }),
            409,
        ),
        (&Method::PATCH, "", &json!({ "version": 4, "valid_for_ms": 7_200_000 }), 200),
        (&Method::PATCH, "", &week, 200),
        (&Method::PATCH, "", &week, 200),
        (&Method::PATCH, "", &name, 200),
        (&Method::PATCH, "", &name, 200),
        (&post, "/end", &nothing, 428),
        (&post, "/end", &json!({ "confirm": "A sale" }), 428),
        (&post, "/end", &json!({ "confirm": "Renamed" }), 200),
    ] {
        let answer = send(api, method.clone(), &format!("{path}{sub}"), body).await;
        assert_eq!(answer.status, status, "{method} {sub} {body}: {answer:?}");
    }
}

#[tokio::test]
async fn each_action_is_one_line_and_what_is_refused_or_sent_again_is_none() {
    let world = World::start("audit").await;
    let api = world.api();
    let new = NewTemplate::simple("A sale", 10, world.clock.now(), TimeDelta::hours(1));
    let created = send(api, Method::POST, "/v1/templates", &json!(new)).await;
    let id = created.json::<Value>().unwrap()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/templates/{id}");
    let nothing = Value::Null;
    walk(api, &path).await;
    let lines = record(api, "").await;
    assert_eq!(
        actions(&lines),
        [
            "template.end",
            "template.edit",
            "template.edit",
            "template.edit",
            "stock.move",
            "template.resume",
            "template.pause",
            "template.publish",
            "template.create"
        ]
    );
    for line in &lines {
        assert_eq!(
            (&line["target"], &line["key_id"]),
            (&json!(format!("templates/{id}")), &nothing)
        );
        assert_eq!((&line["trace_id"], &line["merchant_id"]), (&json!(TRACE), &json!("1")));
    }
    let template: Value = send(api, Method::GET, &path, &nothing).await.json().unwrap();
    let mut shown = lines[0]["after"].clone();
    shown["total_stock"] = json!(15);
    assert_eq!(shown, template);
    assert_eq!(
        (&lines[0]["before"]["state"], &lines[0]["before"]["name"]),
        (&json!("published"), &json!("Renamed"))
    );
    assert_eq!(
        (&lines[1]["before"]["name"], &lines[1]["after"]["name"]),
        (&json!("A sale"), &json!("Renamed"))
    );
    assert_eq!(lines[2]["after"]["issued_coupons"], "follow");
    assert_eq!(
        (&lines[3]["before"]["valid_for_ms"], &lines[3]["after"]["valid_for_ms"]),
        (&json!(3_600_000), &json!(7_200_000))
    );
    assert_eq!(lines[4]["before"], json!({ "total": 10, "stock": 10 }));
    assert_eq!(
        lines[4]["after"],
        json!({ "seq": 2, "delta": 5, "reason": "more", "total": 15, "stock": 15 })
    );
    assert_eq!((&lines[8]["before"], &lines[8]["after"]["total_stock"]), (&nothing, &json!(10)));
    assert!(lines.windows(2).all(|two| two[0]["at"].as_str() >= two[1]["at"].as_str()));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn what_is_done_with_keys_is_recorded_for_whom_they_are_and_names_who_did_it() {
    let world = World::start("audit of keys").await;
    let platform = world.api();
    let nothing = Value::Null;
    let made = async |api: &Api, path: &str, body: Value| -> Value {
        let answer = send(api, Method::POST, path, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json().unwrap()
    };
    let shop = made(platform, "/v1/merchants", json!({ "name": "A shop" })).await;
    let admin = json!({ "name": "first", "scopes": ["admin"], "merchant_id": shop["id"] });
    let first = made(platform, "/v1/api-keys", admin).await;
    let api = platform.with_operator_key(first["key"].as_str().unwrap());
    let second = made(&api, "/v1/api-keys", json!({ "name": "till", "scopes": ["read"] })).await;
    let path = format!("/v1/api-keys/{}", second["id"].as_str().unwrap());
    let third = made(&api, &format!("{path}/rotate"), json!({})).await;
    for _ in 0..2 {
        assert_eq!(send(&api, Method::DELETE, &path, &nothing).await.status, 204);
    }
    let lines = record(&api, "").await;
    assert_eq!(actions(&lines), ["key.revoke", "key.rotate", "key.create", "key.create"]);
    let by: Vec<&Value> = lines.iter().map(|line| &line["key_id"]).collect();
    assert_eq!(by, [&first["id"], &first["id"], &first["id"], &nothing]);
    assert_eq!(lines[1]["after"]["id"], third["id"]);
    assert!(lines[0]["after"]["revoked_at"].is_string(), "{}", lines[0]);
    let recorded = json!(lines).to_string();
    for key in [&first, &second, &third] {
        assert!(!recorded.contains(key["key"].as_str().unwrap()), "the record contains a key");
    }
    let one = record(&api, &format!("&target={}", path.strip_prefix("/v1/").unwrap())).await;
    assert_eq!(actions(&one), ["key.revoke", "key.rotate", "key.create"]);
    assert_eq!(record(&api, "&target=api-keys/1").await, [nothing; 0]);
    assert_eq!(actions(&record(platform, "").await), ["merchant.create"]);
    let theirs = format!("&merchant_id={}", shop["id"].as_str().unwrap());
    assert_eq!(record(platform, &theirs).await, lines);
    world.end().await;
}
