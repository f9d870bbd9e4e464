//! While MySQL is away, who is signed in still sees how the platform is. What nobody knows is null, never 0.

use std::time::Duration;

use devstack::{Flavor, OwnDatabase, TestServers};
use mysql_store::verify;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::Events;
use tokio::time::timeout;

use crate::{
    console::{Browser, SESSION},
    operators::merchants::made,
};

/// Longest wait for a sample that shows something, on a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_mins(2);

/// Samples that are read during the outage: beyond several checks of the key.
const SAMPLES: usize = 12;

async fn next(events: &mut Events) -> Value {
    let next = timeout(SHOWN_WITHIN, events.next_json()).await.expect("a sample comes");
    next.unwrap().expect("the stream goes on")
}

#[tokio::test]
async fn a_session_lives_on_while_mysql_is_away_and_unknown_figures_are_null() {
    let mut database = OwnDatabase::start("console-outage", Flavor::Mariadb, &[]).await.unwrap();
    let servers = TestServers::shared().with_database(&database.url());
    let scope = servers.scope("console outage");
    verify::copy_schema(&scope.endpoints.database_url).await.unwrap();
    let world = World::start_as(scope, |_| ()).await;
    let api = world.api();
    let template = world.template(20, |new| new).await;
    let night = json!({ "name": "night", "scopes": ["emergency"] });
    let night = made(api, "/v1/api-keys", &night).await;
    let night = api.with_operator_key(night["key"].as_str().unwrap());
    let browser = Browser::sign_in(&night).await;
    let asked = browser.ask(api, Method::GET, "/v1/live");
    let mut events = Events::open("/v1/live", asked).await.unwrap();
    let of = |sample: &Value| {
        let templates = sample["templates"].as_array().cloned().unwrap_or_default();
        templates.into_iter().find(|one| one["id"] == template.to_string().as_str())
    };
    while of(&next(&mut events).await).is_none_or(|one| one["drift"] != 0) {}

    database.server.kill().unwrap();
    let mut unknown = next(&mut events).await;
    while of(&unknown).is_none_or(|one| !one["total"].is_null()) {
        unknown = next(&mut events).await;
    }
    for _ in 0..SAMPLES {
        let one = of(&next(&mut events).await).unwrap();
        for field in ["total", "landed", "confirmed", "held", "in_flight", "queued", "drift"] {
            assert!(one[field].is_null(), "{field}: {one}");
        }
        assert_eq!(one["left"], 20, "the gate still knows: {one}");
    }
    while next(&mut events).await["impact"]["state"] != "down" {}
    let told = browser.get(api, SESSION).await;
    assert_eq!(told.status, 200, "{told:?}");
    assert_eq!(told.json::<Value>().unwrap(), browser.session);
    let health = browser.get(api, "/v1/health").await;
    assert_eq!(health.status, 200, "{health:?}");

    database.server.start().await.unwrap();
    let known = async || of(&next(&mut events).await);
    until(known, |one| one.as_ref().is_some_and(|one| one["total"] == 20)).await;
    drop(events);
    world.end().await;
}
