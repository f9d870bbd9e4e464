//! An api that is stopped inside any transaction that holds the stock row: others' sales continue.

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{FakeClock, PlatformOptions};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::json;
use shopper::{Api, NewTemplate};
use tokio::task::JoinSet;

use crate::claims::faults::{insist, is_stopped, start_with};

/// Requests at which the api stops: fail point, route below the template, number of parallel requests.
const CASES: [(&str, &str, usize); 6] = [
    ("api.before_commit", "stock-movements", 3),
    ("api.before_commit", "pause", 1),
    ("api.before_commit", "resume", 1),
    ("api.before_commit", "edit", 1),
    ("rebuild.before_epoch", "gate-rebuild", 1),
    ("api.before_commit", "end", 1),
];

/// Asks an api to change a template; `number` distinguishes several requests of a kind.
async fn ask(api: Api, template: TemplateId, what: &str, number: usize) -> Option<u16> {
    let path = format!("/v1/templates/{template}");
    let request = match what {
        "stock-movements" => api
            .operator(Method::POST, &format!("{path}/{what}"))
            .header("Idempotency-Key", format!("move-{number}"))
            .json(&json!({ "delta": 1, "reason": "more" })),
        "edit" => api
            .operator(Method::PATCH, &path)
            .header("If-Match", "*")
            .json(&json!({ "claim_ends_at": "2035-01-01T00:00:00Z" })),
        verb => api.operator(Method::POST, &format!("{path}/{verb}")).header("If-Match", "*"),
    };
    api.send(request).await.ok().map(|answer| answer.status)
}

#[tokio::test]
async fn an_api_stopped_inside_any_transaction_that_holds_the_hot_row_stops_no_sale() {
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_with("hung api", two_apis).await;
    let several = |new| NewTemplate { per_user_limit: 2, ..new };
    let mut user = 0;
    for (point, what, times) in CASES {
        let template = world.template(1_000, several).await;
        let bystander = world.template(1_000, several).await;
        if what == "resume" {
            world.api().turn(template, "pause").await.unwrap();
        }
        start_with(&mut world.platform.apis[1], "FAIL_POINTS", &format!("{point}=stop")).await;
        let mut asked = JoinSet::new();
        for number in 0..times {
            let api = world.apis[1].clone();
            asked.spawn(async move { ask(api, template, what, number).await });
        }
        until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;

        user += 1;
        let shopper = world.apis[0].shopper(UserId(user)).unwrap();
        assert_eq!(insist(&shopper, bystander).await.status, 201, "{what}: another template");
        if what == "resume" {
            // The stuck resumption is not visible, so the operator asks the other api.
            let healthy = async || ask(world.apis[0].clone(), template, "resume", 0).await;
            until(healthy, |status| *status == Some(200)).await;
        }
        assert_eq!(insist(&shopper, template).await.status, 201, "{what}: the template itself");
        assert!(is_stopped(&world.platform.apis[1]), "{what}: it was stopped all the while");
        world.platform.apis[1].resume().unwrap();
        asked.join_all().await;
        assert_eq!(world.count(template).await.all(), 1, "{what}");
        assert_eq!(world.count(bystander).await.all(), 1, "{what}");
    }
    start_with(&mut world.platform.apis[1], "FAIL_POINTS", "").await;
    world.assert_sound(None).await;
    world.end().await;
}

/// Returns when an id was generated, by its generator's clock, in milliseconds since 1970.
fn made_at_ms(id: TemplateId) -> i64 {
    (id.0 >> 22) + 1_288_834_974_657
}

#[tokio::test]
async fn ids_follow_the_clock_of_an_api_that_started_ten_minutes_behind() {
    let mut world = World::start("ids behind").await;
    let clock = FakeClock::new(&world.platform.options.dir.join("own-clock")).unwrap();
    clock.set(-600).unwrap();
    clock.give(&mut world.platform.apis[0]);
    world.platform.apis[0].restart().await.unwrap();
    let behind_ms = async || {
        let new = NewTemplate::simple("Ids", 1, world.clock.now(), TimeDelta::hours(1));
        let id = world.api().create(&new).await.unwrap().id;
        world.clock.now().timestamp_millis() - made_at_ms(id)
    };
    assert!(behind_ms().await > 500_000);
    clock.set(0).unwrap();
    until(behind_ms, |behind| *behind < 60_000).await;
    // A single api whose clock is ahead does not move ids ahead: that could not be undone.
    clock.set(600).unwrap();
    let template = world.template(1, |new| new).await;
    assert!(made_at_ms(template) < world.clock.now().timestamp_millis() + 60_000);
    clock.set(0).unwrap();
    world.end().await;
}
