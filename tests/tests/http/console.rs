//! The console: at the api, and at its admin listener, which answers while no caller is led to the api.

use pipeline_tests::World;
use reqwest::Method;

/// Returns whether an answer has this status.
fn is(answer: &str, status: &str) -> bool {
    answer.split(' ').nth(1) == Some(status)
}

#[tokio::test]
async fn the_console_and_what_it_calls_are_served_by_the_api_and_by_its_admin_listener() {
    let world = World::start("console").await;
    let api = world.api();
    let page = api.send(api.anonymous(Method::GET, "/console")).await.unwrap();
    assert_eq!((page.status, page.content_type.as_str()), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let request = api.anonymous(Method::GET, "/console").header("accept", "text/html");
    assert_eq!(api.send(request).await.unwrap().body, page.body, "browsers ask for HTML");
    let none = api.send(api.anonymous(Method::GET, "/console/none.js")).await.unwrap();
    assert_eq!(none.status, 404);

    let admin = &world.platform.apis[0];
    let same = admin.answer("/console").await.unwrap();
    assert!(is(&same, "200") && same.ends_with(&page.body), "{same}");
    let script = admin.answer("/console/app.js").await.unwrap();
    assert!(script.to_ascii_lowercase().contains("content-type: text/javascript"), "{script}");
    // The listener gives nobody a right: whoever calls needs a key there too.
    let refused = admin.answer("/v1/templates").await.unwrap();
    assert!(is(&refused, "401"), "{refused}");
    // Its own routes stay what they are.
    assert!(admin.answer("/livez").await.unwrap().ends_with("ok\n"));
    world.end().await;
}

#[tokio::test]
async fn a_process_other_than_the_api_has_no_console() {
    let world = World::start("console elsewhere").await;
    let none = world.platform.expiry_worker.answer("/console").await.unwrap();
    assert!(is(&none, "404"), "{none}");
    world.end().await;
}
