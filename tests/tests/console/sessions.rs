//! A session of the console stands for its operator's key, at every api, and for nothing else: it ends with the key, and
//! changes nothing unless the console's own page asks.

use devstack::PlatformOptions;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::Api;

use super::{Browser, SESSION, refused};
use crate::operators::merchants::{made, merchant, published};

fn two_apis(options: PlatformOptions) -> PlatformOptions {
    PlatformOptions { apis: 2, ..options }
}

fn cross_site() -> (u16, String) {
    (403, "CROSS_SITE".to_owned())
}

fn unauthenticated() -> (u16, String) {
    (401, "UNAUTHENTICATED".to_owned())
}

/// Makes a key of the operator's merchant; returns its operator, and its path.
async fn key_of(api: &Api, scopes: &[&str]) -> (Api, String) {
    let key = made(api, "/v1/api-keys", &json!({ "name": "Till", "scopes": scopes })).await;
    let path = format!("/v1/api-keys/{}", key["id"].as_str().unwrap());
    (api.with_operator_key(key["key"].as_str().unwrap()), path)
}

#[tokio::test]
async fn a_session_stands_for_its_key_at_every_api_and_ends_with_it() {
    let world = World::start_with("sessions", two_apis).await;
    let there = &world.apis[1];
    let shop = merchant(&world, "A shop").await;
    let other = merchant(&world, "Another shop").await;
    let own = published(&world, &shop).await;
    let foreign = published(&world, &other).await;
    let (till, key) = key_of(&shop, &["operate"]).await;
    let browser = Browser::sign_in(&till).await;
    let session = &browser.session;
    assert_eq!((&session["name"], &session["scopes"]), (&json!("Till"), &json!(["operate"])));
    assert_eq!(session["is_on_call"], false);
    let told: Value = browser.get(there, SESSION).await.json().unwrap();
    assert_eq!(told, *session, "each api opens it, and tells the same token");
    let whoami: Value = browser.get(there, "/v1/whoami").await.json().unwrap();
    assert_eq!(
        (&whoami["key_id"], &whoami["merchant_id"]),
        (&session["key_id"], &session["merchant_id"])
    );

    let list: Value = browser.get(there, "/v1/templates").await.json().unwrap();
    let ids: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&json!(own.to_string())], "a merchant's session sees its own");
    let theirs = browser.get(there, &format!("/v1/templates/{foreign}")).await;
    assert_eq!(refused(&theirs), (404, "TEMPLATE_NOT_FOUND".to_owned()));
    let keys = browser.get(there, "/v1/api-keys").await;
    assert_eq!(refused(&keys), (403, "SCOPE_LACKING".to_owned()), "and may what its key may");
    let pause = format!("/v1/templates/{own}/pause");
    let paused = there.send(browser.ask(there, Method::POST, &pause)).await.unwrap();
    assert_eq!(paused.status, 200, "{paused:?}");
    let record: Value = browser.get(there, "/v1/audit").await.json().unwrap();
    assert_eq!(record["data"][0]["key_id"], session["key_id"], "{record}");

    let revoked = shop.send(shop.operator(Method::DELETE, &key)).await.unwrap();
    assert_eq!(revoked.status, 204, "{revoked:?}");
    for api in &world.apis {
        let look = async || browser.get(api, "/v1/templates").await;
        let ended = until(look, |answer| answer.status != 200).await;
        assert_eq!(refused(&ended), unauthenticated());
        assert_eq!(refused(&browser.get(api, SESSION).await), unauthenticated());
    }
    world.end().await;
}

#[tokio::test]
async fn a_change_by_a_session_needs_its_token_and_a_page_of_this_server() {
    let world = World::start("cross site").await;
    let api = world.api();
    let template = world.template(5, |new| new).await;
    let browser = Browser::sign_in(api).await;
    let another = Browser::sign_in(api).await;
    let pause = format!("/v1/templates/{template}/pause");
    let host = world.platform.api_url();
    let own = browser.csrf_token();
    for (why, headers) in [
        ("no token", vec![("sec-fetch-site", "same-origin")]),
        ("no page", vec![("x-csrf-token", own)]),
        ("another session's token", vec![("x-csrf-token", another.csrf_token()), ("origin", host)]),
        ("half a token", vec![("x-csrf-token", &own[..20]), ("origin", host)]),
        ("two tokens", vec![("x-csrf-token", own), ("x-csrf-token", own), ("origin", host)]),
        ("a foreign origin", vec![("x-csrf-token", own), ("origin", "https://evil.example")]),
        ("a hidden origin", vec![("x-csrf-token", own), ("origin", "null")]),
        ("a foreign site", vec![("x-csrf-token", own), ("sec-fetch-site", "cross-site")]),
        ("a sister site", vec![("x-csrf-token", own), ("sec-fetch-site", "same-site")]),
    ] {
        let request = browser.bare(api, Method::POST, &pause);
        let request =
            headers.into_iter().fold(request, |ask, (name, value)| ask.header(name, value));
        let answer = api.send(request).await.unwrap();
        assert_eq!(refused(&answer), cross_site(), "{why}: {answer:?}");
        assert!(!answer.body.contains(own), "a refusal tells no token: {answer:?}");
    }
    let foreign = browser.bare(api, Method::GET, SESSION).header("origin", "https://evil.example");
    assert_eq!(refused(&api.send(foreign).await.unwrap()), cross_site(), "nor is it read");
    assert_eq!(api.template(template).await.unwrap().version, 2, "nothing has changed");
    let request = browser.bare(api, Method::POST, &pause).header("x-csrf-token", own);
    let paused = api.send(request.header("origin", host)).await.unwrap();
    assert_eq!(paused.status, 200, "an older browser: {paused:?}");
    // A key beside the cookie counts, and needs no token.
    let request = api.operator(Method::POST, &format!("/v1/templates/{template}/resume"));
    let resumed = api.send(request.header("cookie", &browser.cookie)).await.unwrap();
    assert_eq!(resumed.status, 200, "{resumed:?}");
    world.end().await;
}

#[tokio::test]
async fn a_cookie_that_was_forged_changed_or_cut_is_no_session() {
    let world = World::start("forged cookies").await;
    let api = world.api();
    let browser = Browser::sign_in(api).await;
    let (name, value) = browser.cookie.split_once('=').unwrap();
    let flipped = |at: usize| {
        let with = if &value[at..=at] == "A" { "B" } else { "A" };
        format!("{}{with}{}", &value[..at], &value[at + 1..])
    };
    let last = value.len() - 1;
    let mut forged: Vec<String> = [0, 1, 20, 60, 100, last - 1].into_iter().map(flipped).collect();
    forged.extend([&value[1..], &value[..last], "", "x"].map(str::to_owned));
    forged.extend([
        format!("{value}A"),
        "A".repeat(value.len()),
        format!("{value}; {name}={value}"),
    ]);
    for value in &forged {
        for (method, path) in [
            (Method::GET, "/v1/templates"),
            (Method::GET, SESSION),
            (Method::POST, "/v1/redemptions"),
        ] {
            let request =
                api.anonymous(method.clone(), path).header("x-csrf-token", browser.csrf_token());
            let request = request.header("cookie", format!("{name}={value}"));
            let answer = api.send(request.header("sec-fetch-site", "same-origin")).await.unwrap();
            assert_eq!(refused(&answer), unauthenticated(), "{method} {path}, {value}");
        }
    }
    // The cookie of another name is none, and neither is no cookie.
    let request =
        api.anonymous(Method::GET, SESSION).header("cookie", format!("__Host-{name}={value}"));
    assert_eq!(refused(&api.send(request).await.unwrap()), unauthenticated());
    let anonymous = api.send(api.anonymous(Method::GET, SESSION)).await.unwrap();
    assert_eq!(refused(&anonymous), unauthenticated());
    assert_eq!(browser.get(api, SESSION).await.status, 200, "the true one is still good");
    world.end().await;
}

#[tokio::test]
async fn who_signs_in_shows_a_key_and_who_signs_out_has_no_cookie_left() {
    let world = World::start("signing in").await;
    let api = world.api();
    let browser = Browser::sign_in(api).await;
    assert_eq!(browser.session["key_id"], Value::Null);
    assert_eq!(
        (&browser.session["name"], &browser.session["is_on_call"]),
        (&json!("platform"), &json!(true))
    );
    // A session begins no other, and so never outlives its twelve hours.
    let again = api.send(browser.ask(api, Method::POST, SESSION)).await.unwrap();
    assert_eq!(refused(&again), unauthenticated());
    let wrong = api.with_operator_key("ck_1_x");
    let wrong = wrong.send(wrong.operator(Method::POST, SESSION)).await.unwrap();
    assert_eq!((refused(&wrong), wrong.header("set-cookie")), (unauthenticated(), None));

    // Beyond loopback a browser keeps the cookie for TLS and for this host alone.
    let outside = api.operator(Method::POST, SESSION).header("host", "coupons.example");
    let outside = api.send(outside).await.unwrap();
    let line = outside.header("set-cookie").unwrap();
    assert!(line.starts_with("__Host-coupon_console=") && line.ends_with("; Secure"), "{line}");
    assert!(!outside.body.contains(line.split([';', '=']).nth(1).unwrap()), "no script reads it");

    let left = api.send(browser.bare(api, Method::DELETE, SESSION)).await.unwrap();
    assert_eq!(refused(&left), cross_site(), "another site signs nobody out");
    let out = api.send(browser.ask(api, Method::DELETE, SESSION)).await.unwrap();
    assert_eq!((out.status, out.body.as_str()), (204, ""));
    let line = out.header("set-cookie").unwrap();
    assert!(line.starts_with("coupon_console=; ") && line.contains("Max-Age=0"), "{line}");

    // Neither cookie nor token is in the log.
    let log = std::fs::read_to_string(world.platform.apis[0].log()).unwrap();
    let (_, value) = browser.cookie.split_once('=').unwrap();
    assert!(!log.contains(value) && !log.contains(browser.csrf_token()));
    world.end().await;
}
