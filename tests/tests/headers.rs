//! What every answer carries, and what a browser is told.

use coupon::UserId;
use pipeline_tests::World;
use reqwest::Method;
use shopper::{Answer, Api};

const SHOP: &str = "https://shop.example";

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
        // No page of another origin is let in unless a setting names it.
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
        assert!(answer.header("access-control-allow-headers").unwrap().contains("authorization"));
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
