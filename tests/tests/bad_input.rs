//! What clients should not send: each is answered by a problem with its code, and nothing panics.

use chrono::TimeDelta;
use coupon::UserId;
use pipeline_tests::World;
use reqwest::{Method, RequestBuilder};
use runtime::Clock;
use serde_json::{Value, json};
use shopper::{Answer, Api, NewTemplate, Shopper};

/// A request and what it is answered.
type Case = (&'static str, RequestBuilder, u16, &'static str);

/// An id that nothing has.
const NOTHING: &str = "4611686018427387904";

#[tokio::test]
async fn bad_input_is_answered_by_a_problem_and_leaves_no_row() {
    let world = World::start("bad input").await;
    let api = world.api();
    let one = world.template(10, |new| new).await;
    let several =
        world.template(10, |new| NewTemplate { per_user_limit: 5, max_per_claim: 3, ..new }).await;
    let shopper = api.shopper(UserId(1)).unwrap();
    let cases = [
        credentials(&world, &format!("/v1/templates/{one}/claims")),
        claims(&shopper, &format!("/v1/templates/{one}/claims")),
        keys(&shopper, &format!("/v1/templates/{several}/claims")),
        coupons(&shopper),
        templates(api),
    ];
    let mut wrong = Vec::new();
    for (name, request, status, code) in cases.into_iter().flatten() {
        let answer = api.send(request).await.unwrap();
        if !is_problem(&answer, status, code) {
            wrong.push(format!("{name}, not {status} {code}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(world.count(one).await.all() + world.count(several).await.all(), 0);

    // A good request is answered as ever.
    let claim = |quantity| shopper.claim(several, Some("good"), quantity);
    assert_eq!(claim(2).await.unwrap().status, 201);
    let reused = claim(1).await.unwrap();
    assert!(is_problem(&reused, 422, "IDEMPOTENCY_KEY_REUSED"), "{reused:?}");
    assert_eq!(world.count(several).await.all(), 2);
    world.assert_sound(None).await;
    world.end().await;
}

/// A problem of this status and code that the same request would meet again.
fn is_problem(answer: &Answer, status: u16, code: &str) -> bool {
    let Ok(body) = answer.json::<Value>() else { return false };
    answer.status == status
        && answer.content_type == "application/problem+json"
        && body["code"] == code
        && body["status"] == status
        && body["retryable"] == false
        && body["title"].is_string()
        && body["detail"].is_string()
}

fn credentials(world: &World, path: &str) -> Vec<Case> {
    let api = world.api();
    let url = world.platform.api_url();
    let forger = "another secret, of thirty-two bytes";
    let forged = Api::new(url, forger, "another key", Clock::system()).unwrap();
    let expired = api.shopper_until(UserId(1), -TimeDelta::minutes(1)).unwrap();
    let post = |shopper: &Shopper| shopper.request(Method::POST, path);
    let bearer =
        |token: &str| api.anonymous(Method::POST, path).header("authorization", token.to_owned());
    let unknown = "UNAUTHENTICATED";
    vec![
        ("no token", api.anonymous(Method::POST, path), 401, unknown),
        ("an expired token", post(&expired), 401, unknown),
        ("a forged token", post(&forged.shopper(UserId(1)).unwrap()), 401, unknown),
        ("no token at all", bearer("Bearer "), 401, unknown),
        ("a token of another kind", bearer("Basic YTpi"), 401, unknown),
        ("garbage", bearer("Bearer a.b.c"), 401, unknown),
        ("no key", api.anonymous(Method::GET, "/v1/templates"), 401, unknown),
        ("a wrong key", forged.operator(Method::GET, "/v1/templates"), 401, unknown),
    ]
}

fn claims(shopper: &Shopper, path: &str) -> Vec<Case> {
    let post = |path: &str| shopper.request(Method::POST, path);
    let body =
        |text: &str| post(path).header("content-type", "application/json").body(text.to_owned());
    let malformed = "MALFORMED_BODY";
    let quantity = "INVALID_QUANTITY";
    vec![
        (
            "an unknown template",
            post(&format!("/v1/templates/{NOTHING}/claims")),
            404,
            "TEMPLATE_NOT_FOUND",
        ),
        ("an id that is none", post("/v1/templates/first/claims"), 404, "NOT_FOUND"),
        ("a negative id", post("/v1/templates/-1/claims"), 404, "NOT_FOUND"),
        ("an unknown path", post("/v1/template"), 404, "NOT_FOUND"),
        ("another method", shopper.request(Method::PUT, path), 405, "METHOD_NOT_ALLOWED"),
        ("no JSON", body("{\"quantity\":"), 400, malformed),
        ("a list", body("[1]"), 400, malformed),
        ("text for a number", body("{\"quantity\":\"1\"}"), 400, malformed),
        ("a fraction", body("{\"quantity\":1.5}"), 400, malformed),
        ("beyond all numbers", body("{\"quantity\":99999999999999999999}"), 400, malformed),
        ("an unknown field", body("{\"user_id\":\"2\"}"), 400, malformed),
        ("deep nesting", body(&"[".repeat(10_000)), 400, malformed),
        ("another media type", post(path).body("quantity=1"), 415, "NOT_JSON"),
        ("a huge body", body(&" ".repeat(80 << 10)), 413, "BODY_UNREADABLE"),
        ("none", body("{\"quantity\":0}"), 422, quantity),
        ("fewer than none", body("{\"quantity\":-1}"), 422, quantity),
        ("more than allowed", body("{\"quantity\":2}"), 422, quantity),
        ("far more", body("{\"quantity\":9223372036854775807}"), 422, quantity),
        (
            "an unknown claim",
            shopper.request(Method::GET, &format!("/v1/claims/{NOTHING}?template=x")),
            404,
            "CLAIM_NOT_FOUND",
        ),
    ]
    .into_iter()
    .map(|(name, request, status, code)| {
        let typed = name != "another media type";
        let request = if typed { request } else { request.header("content-type", "text/plain") };
        (name, request, status, code)
    })
    .collect()
}

fn keys(shopper: &Shopper, path: &str) -> Vec<Case> {
    let with_key = |key: String| shopper.request(Method::POST, path).header("idempotency-key", key);
    let invalid = "IDEMPOTENCY_KEY_INVALID";
    vec![
        ("no key", shopper.request(Method::POST, path), 400, "IDEMPOTENCY_KEY_MISSING"),
        ("an empty key", with_key(String::new()), 400, invalid),
        ("a reserved key", with_key("*".to_owned()), 400, invalid),
        ("a fence's key", with_key("~1".to_owned()), 400, invalid),
        ("a key with a space", with_key("a b".to_owned()), 400, invalid),
        ("a long key", with_key("k".repeat(65)), 400, invalid),
    ]
}

fn coupons(shopper: &Shopper) -> Vec<Case> {
    let list = |query: &str| shopper.request(Method::GET, &format!("/v1/me/coupons?{query}"));
    let use_path = format!("/v1/me/coupons/{NOTHING}/use");
    let use_for = |order: Value| {
        shopper.request(Method::POST, &use_path).json(&json!({ "order_ref": order }))
    };
    vec![
        ("a page of none", list("limit=0"), 422, "INVALID_LIMIT"),
        ("a page of too many", list("limit=101"), 422, "INVALID_LIMIT"),
        ("a page of text", list("limit=ten"), 400, "MALFORMED_QUERY"),
        ("an unknown status", list("status=lost"), 422, "INVALID_STATUS"),
        ("a cursor of nobody", list("cursor=%00"), 400, "INVALID_CURSOR"),
        ("after no id", list("after=first"), 400, "INVALID_AFTER"),
        (
            "an unknown coupon",
            shopper.request(Method::GET, &format!("/v1/me/coupons/{NOTHING}")),
            404,
            "COUPON_NOT_FOUND",
        ),
        ("using an unknown coupon", use_for(json!("order")), 404, "COUPON_NOT_FOUND"),
        ("no order", use_for(json!(" ")), 422, "INVALID_ORDER_REF"),
        ("a long order", use_for(json!("o".repeat(65))), 422, "INVALID_ORDER_REF"),
        ("an order of another type", use_for(json!(1)), 400, "MALFORMED_BODY"),
    ]
}

fn templates(api: &Api) -> Vec<Case> {
    let good = NewTemplate::simple("A sale", 10, api.clock().now(), TimeDelta::hours(1));
    let good = serde_json::to_value(good).unwrap();
    let create = |change: Value| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        api.operator(Method::POST, "/v1/templates").json(&body)
    };
    let invalid = "INVALID_TEMPLATE";
    let turn =
        |id: &str, verb: &str| api.operator(Method::POST, &format!("/v1/templates/{id}/{verb}"));
    vec![
        ("no name", create(json!({ "name": "" })), 422, invalid),
        ("negative stock", create(json!({ "total_stock": -1 })), 422, invalid),
        ("a limit too high", create(json!({ "per_user_limit": 101 })), 422, invalid),
        ("a claim over the limit", create(json!({ "max_per_claim": 2 })), 422, invalid),
        ("a negative limit", create(json!({ "per_user_limit": -1 })), 400, "MALFORMED_BODY"),
        (
            "a window backwards",
            create(json!({ "claim_ends_at": "2020-01-01T00:00:00Z" })),
            422,
            invalid,
        ),
        ("no time", create(json!({ "claim_ends_at": "soon" })), 400, "MALFORMED_BODY"),
        ("no validity", create(json!({ "valid_for_ms": null })), 422, invalid),
        ("an endless validity", create(json!({ "valid_for_ms": i64::MAX })), 422, invalid),
        ("a field too many", create(json!({ "stock": 1 })), 400, "MALFORMED_BODY"),
        ("an unknown template", turn(NOTHING, "publish"), 404, "TEMPLATE_NOT_FOUND"),
        ("an unknown verb", turn(NOTHING, "explode"), 404, "NOT_FOUND"),
    ]
}
