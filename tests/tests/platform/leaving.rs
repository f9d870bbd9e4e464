//! An api that is asked to end.

use coupon::UserId;
use pipeline_tests::{World, until};

#[tokio::test]
async fn an_api_that_leaves_says_so_and_answers_until_its_balancer_has_seen_it() {
    let change = |options: devstack::PlatformOptions| options.with_env("DRAIN_SECONDS", "10");
    let mut world = World::start_with("leaving", change).await;
    let template = world.template(10, |new| new).await;
    world.platform.apis[0].terminate().unwrap();
    let api = &world.platform.apis[0];
    let readyz = async || api.answer("/readyz").await.unwrap_or_default();
    let said = until(readyz, |said| said.starts_with("HTTP/1.0 503")).await;
    assert!(said.contains("leaving"), "{said}");
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let answer = shopper.claim(template, Some("a-key"), 1).await.unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    // Nobody has to wait for the rest of the time.
    let ended = world.platform.apis[0].stop().await.unwrap();
    assert!(ended.is_some_and(|status| status.success()));
    assert!(shopper.claim(template, Some("another-key"), 1).await.is_err());
    assert_eq!(world.count(template).await.all(), 1);
    world.platform.apis[0].start().await.unwrap();
    world.end().await;
}
