//! Each time that a request can have, by the api's own document: RFC 3339 is read, anything else is refused by a problem
//! that names the field, and nothing is stored.

use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::http::full::openapi::document;

/// Texts that are no time for a request: without an offset, a leap second, out of range, and what other parsers take.
const REFUSED: [&str; 10] = [
    "2026-11-27T08:00:00",
    "2026-11-27T02:23:60Z",
    "2026-11-27T08:00:00+0545",
    "2026-11-27 08:00:00Z",
    "2026-1-27T8:00:00Z",
    "1969-12-31T23:59:59.999Z",
    "+12026-11-27T08:00:00Z",
    "9999-12-31T23:59:59-00:01",
    "tomorrow",
    "",
];

/// Fewest places of the document that take a time.
const PLACES_MIN: usize = 22;

/// Where a request takes a time.
struct Place {
    method: Method,
    path: String,
    field: String,
    in_query: bool,
}

#[tokio::test]
async fn every_time_of_a_request_is_rfc_3339_or_a_refusal_that_names_its_field() {
    let world = World::start("times").await;
    let document = document(&world).await;
    let places = places(&document);
    assert!(places.len() >= PLACES_MIN, "{} places", places.len());
    for Place { method, path, field, in_query } in &places {
        for text in REFUSED {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let query = if *in_query { format!("?{field}={encoded}") } else { String::new() };
            let request = world.api().operator(method.clone(), &format!("{path}{query}"));
            let request = request.header("idempotency-key", "times").header("if-match", "\"1\"");
            let request = if *in_query { request } else { request.json(&json!({ field: text })) };
            let answer = world.api().send(request).await.unwrap();
            let at = format!("{method} {path}, {field} `{text}`: {}", answer.body);
            let code = if *in_query { "MALFORMED_QUERY" } else { "MALFORMED_BODY" };
            assert_eq!((answer.status, answer.code().as_deref()), (400, Some(code)), "{at}");
            let problem: Value = answer.json().unwrap();
            assert!(problem["detail"].as_str().unwrap().contains(&format!("{field}: ")), "{at}");
            assert!(*in_query || problem["field"] == field.as_str(), "{at}");
        }
    }
    world.end().await;
}

/// Returns each query parameter and each property of a JSON body whose schema is `Instant`.
fn places(document: &Value) -> Vec<Place> {
    let mut places = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let mut add = |field: &str, in_query| {
                places.push(Place {
                    method: method.to_uppercase().parse().unwrap(),
                    path: with_ids(path),
                    field: field.to_owned(),
                    in_query,
                });
            };
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "query" && is_instant(&parameter["schema"]) {
                    add(parameter["name"].as_str().unwrap(), true);
                }
            }
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let properties = resolved(document, schema)["properties"].as_object();
            for (name, property) in properties.into_iter().flatten() {
                if is_instant(property) {
                    add(name, false);
                }
            }
        }
    }
    places
}

/// Whether a schema is `Instant`, or `Instant` or null.
fn is_instant(schema: &Value) -> bool {
    schema.to_string().contains("#/components/schemas/Instant\"")
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    name.map_or(schema, |name| &document["components"]["schemas"][name])
}

/// Replaces each parameter of a path by an id.
fn with_ids(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
    parts.collect::<Vec<_>>().join("/")
}
