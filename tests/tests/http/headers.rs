//! Headers of every answer, and cross-origin rules for browsers.

use std::collections::BTreeSet;

use coupon::UserId;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::Value;
use shopper::{Answer, Api};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const SHOP: &str = "https://shop.example";

/// Headers that every route takes, although the document names them with none.
const OF_ALL_ROUTES: [&str; 4] = ["authorization", "content-type", "traceparent", "x-request-id"];

async fn preflight(api: &Api, origin: &str) -> Answer {
    let request = api
        .anonymous(Method::OPTIONS, "/v1/me/coupons")
        .header("origin", origin)
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "authorization");
    api.send(request).await.unwrap()
}

#[tokio::test]
async fn every_answer_carries_what_keeps_browsers_safe_and_says_what_is_allowed() {
    let world = World::start("headers").await;
    let api = world.api();
    let template = world.template(1, |new| new).await;
    let shopper = api.shopper(UserId(1)).unwrap();
    let answers = [
        shopper.claim(template, None, 1).await.unwrap(),
        shopper.send(shopper.request(Method::GET, "/v1/me/coupons")).await.unwrap(),
        shopper.send(shopper.request(Method::GET, "/nowhere")).await.unwrap(),
        api.send(api.anonymous(Method::GET, "/v1/me/coupons")).await.unwrap(),
        api.shop(template, None).await.unwrap(),
        preflight(api, SHOP).await,
    ];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [201, 200, 404, 401, 200, 405]);
    for answer in &answers {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
        let policy = "default-src 'none'; frame-ancestors 'none'";
        assert_eq!(answer.header("content-security-policy"), Some(policy), "{answer:?}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{answer:?}");
        assert!(answer.header("cache-control").is_some(), "{answer:?}");
        // No other origin is allowed unless a setting names it.
        assert_eq!(answer.header("access-control-allow-origin"), None, "{answer:?}");
    }
    let allowed = answers[5].header("allow").unwrap();
    assert_eq!(allowed, "GET,HEAD", "405 says what would be right");
    world.end().await;
}

#[tokio::test]
async fn pages_of_the_named_origins_may_call_and_of_no_others() {
    let world = World::start_with("cors", |options| {
        options.with_env("ALLOWED_ORIGINS", "https://shop.example,http://localhost:3000")
    })
    .await;
    let api = world.api();
    for origin in [SHOP, "http://localhost:3000"] {
        let answer = preflight(api, origin).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        let allowed = answer.header("access-control-allow-headers").unwrap();
        assert!(
            allowed.contains("authorization") && allowed.contains("last-event-id"),
            "{allowed}"
        );
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        let request = api.anonymous(Method::GET, "/v1/me/coupons").header("origin", origin);
        let answer = api.send(request).await.unwrap();
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert!(answer.header("access-control-expose-headers").unwrap().contains("retry-after"));
        assert!(answer.header("vary").unwrap().contains("origin"));
    }
    for origin in ["https://shop.example.evil", "http://shop.example", "null", "https://evil"] {
        let answer = preflight(api, origin).await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}: {answer:?}");
    }
    world.end().await;
}

/// Methods and headers of requests, by the document, of all operations that a shopper's page calls: with a token or
/// without any credential.
fn taken_from_shoppers(document: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut methods = BTreeSet::new();
    let mut headers = BTreeSet::new();
    let paths = document["paths"].as_object().unwrap().values();
    for (method, operation) in paths.flat_map(|path| path.as_object().unwrap()) {
        let security = operation["security"].as_array();
        if security.is_some_and(|any| any.iter().all(|one| one.get("token").is_none())) {
            continue;
        }
        methods.insert(method.to_uppercase());
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let of_head = parameters.filter(|parameter| parameter["in"] == "header");
        headers.extend(of_head.map(|header| header["name"].as_str().unwrap().to_lowercase()));
    }
    (methods, headers)
}

#[tokio::test]
async fn a_page_may_send_what_the_shoppers_routes_take_and_no_more() {
    let world =
        World::start_with("cors of routes", |options| options.with_env("ALLOWED_ORIGINS", SHOP))
            .await;
    let api = world.api();
    let document = api.send(api.anonymous(Method::GET, "/openapi.json")).await.unwrap();
    let (methods, mut headers) = taken_from_shoppers(&document.json().unwrap());
    assert!(methods.contains("POST") && headers.contains("idempotency-key"), "{headers:?}");
    headers.extend(OF_ALL_ROUTES.map(str::to_owned));
    let answer = preflight(api, SHOP).await;
    let listed = |name: &str| -> BTreeSet<String> {
        answer.header(name).unwrap().split(',').map(|one| one.trim().to_owned()).collect()
    };
    assert_eq!(listed("access-control-allow-methods"), methods);
    assert_eq!(listed("access-control-allow-headers"), headers);
    for operators in ["x-api-key", "if-match"] {
        assert!(!headers.contains(operators), "{operators} is of no shopper's route");
    }
    world.end().await;
}

#[tokio::test]
async fn a_page_may_read_why_it_was_refused_whatever_refused_it() {
    let world = World::start_with("cors of refusals", |options| {
        options.with_env("ALLOWED_ORIGINS", SHOP).with_env("CONNECTIONS_PER_ADDRESS", "1")
    })
    .await;
    let address = world.platform.api_url().strip_prefix("http://").unwrap();
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let signed = shopper.request(Method::GET, "/").build().unwrap();
    let authorization = signed.headers()["authorization"].to_str().unwrap();
    let asked = format!("host: {address}\r\norigin: {SHOP}\r\nconnection: close\r\n");
    let claim = format!(
        "POST /v1/templates/1/claims HTTP/1.1\r\n{asked}authorization: {authorization}\r\n"
    );
    // One request of this client stays in progress as long as its body is incomplete.
    let from_one = "x-forwarded-for: 203.0.113.7\r\n";
    let mut first = TcpStream::connect(address).await.unwrap();
    let half = format!("{claim}{from_one}content-length: 9\r\n\r\n");
    first.write_all(half.as_bytes()).await.unwrap();
    let api = &world.platform.apis[0];
    until(async || api.metric("api_connections_largest_address").await, |most| *most == Some(1.0))
        .await;

    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\n{asked}{more}\r\n");
    let long = |bytes: usize| "a".repeat(bytes);
    let cases = [
        (get("/v1/me/coupons", from_one), 429, "TOO_MANY_AT_ONCE"),
        (get("/v1/me/coupons", ""), 401, "UNAUTHENTICATED"),
        (get("/nowhere", ""), 404, "NOT_FOUND"),
        (get("/v1/shop/templates/1", "accept: text/html\r\n"), 406, "NOT_ACCEPTABLE"),
        (get("/v1/shop/templates/1", "host: b\r\n"), 400, "HOST_INVALID"),
        (
            get("/v1/shop/templates/1", &format!("x: {}\r\n", long(17 << 10))),
            431,
            "HEADERS_TOO_LARGE",
        ),
        (get(&format!("/{}", long(5 << 10)), ""), 414, "URI_TOO_LONG"),
        (get("/v1/coupons/%zz", ""), 400, "URI_MALFORMED"),
        (get("/v1/coupons/%2", ""), 400, "URI_MALFORMED"),
        (get("/v1/me/coupons?status=%", ""), 400, "URI_MALFORMED"),
        (format!("{claim}content-length: 99999\r\n\r\n"), 413, "BODY_TOO_LARGE"),
        (
            format!("{claim}content-length: 9\r\nexpect: 100-continue\r\n\r\n{{"),
            408,
            "BODY_INCOMPLETE",
        ),
        (format!("DELETE /v1/me/coupons HTTP/1.1\r\n{asked}\r\n"), 405, "METHOD_NOT_ALLOWED"),
    ];
    for (request, status, code) in cases {
        let mut line = TcpStream::connect(address).await.unwrap();
        line.write_all(request.as_bytes()).await.unwrap();
        if status == 408 {
            // The rest of the body will not be sent.
            line.shutdown().await.unwrap();
        }
        let mut answer = String::new();
        line.read_to_string(&mut answer).await.unwrap();
        let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{code}: {answer}");
        assert!(answer.contains(&format!("\"{code}\"")), "{code}: {answer}");
        assert!(
            answer.contains(&format!("access-control-allow-origin: {SHOP}\r\n")),
            "{code}: {answer}"
        );
        assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{code}: {answer}");
    }
    drop(first);
    world.end().await;
}
