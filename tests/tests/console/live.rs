//! The live figures: every sample sums up, each viewer sees its own sales, and a stream ends with its key.

use std::time::Duration;

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::PlatformOptions;
use mysql_store::verify;
use pipeline_tests::World;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shopper::{Api, Claimed, Events, NewTemplate, ShopperError};
use tokio::time::timeout;

use super::Browser;
use crate::operators::{
    cli::Cli,
    merchants::{made, merchant, published},
};

const LIVE: &str = "/v1/live";

/// Longest wait for a sample that shows something, on a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Long enough that no hold lapses in a test.
const HOLD: TimeDelta = TimeDelta::minutes(10);

/// Connections of the api, and of viewers among them; those of one merchant.
const CONNECTIONS: &str = "64";
const VIEWERS: usize = 8;
const OF_MERCHANT: usize = 6;

fn asked(api: &Api) -> RequestBuilder {
    api.operator(Method::GET, LIVE)
}

pub(super) async fn watch(api: &Api) -> Events {
    Events::open(LIVE, asked(api)).await.unwrap()
}

/// Status and body of a stream that is refused.
fn refusal(refused: Result<Events, ShopperError>) -> (u16, Value) {
    match refused {
        Err(ShopperError::Refused { status, body, .. }) => {
            let problem: Value = serde_json::from_str(&body).unwrap();
            (status, problem["code"].clone())
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn of(sample: &Value, template: TemplateId) -> Option<&Value> {
    let id = template.to_string();
    sample["templates"].as_array()?.iter().find(|one| one["id"] == id.as_str())
}

/// Asserts that the parts of each template are its total, as far as they are known.
fn assert_sums_up(sample: &Value) {
    for template in sample["templates"].as_array().into_iter().flatten() {
        let number = |field: &str| template[field].as_i64();
        let parts = ["confirmed", "held", "in_flight", "left"].map(number);
        let Some(sum) = parts.into_iter().sum::<Option<i64>>() else { continue };
        let drift = number("drift").unwrap_or(0);
        assert_eq!(Some(sum + drift), number("total"), "{template}");
        assert_eq!(drift, 0, "{template}");
        assert!(number("queued").is_none_or(|queued| number("in_flight") >= Some(queued)));
    }
}

/// Reads samples, which all sum up, until one is as wanted.
pub(super) async fn until_shown(events: &mut Events, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let wanted = async {
        loop {
            let sample: Value = events.next_json().await.unwrap().expect("the stream goes on");
            assert_sums_up(&sample);
            if is_wanted(&sample) {
                return sample;
            }
        }
    };
    timeout(SHOWN_WITHIN, wanted).await.expect("no sample is as wanted")
}

#[tokio::test]
async fn samples_show_where_each_coupon_is_and_sum_up() {
    let world = World::start("live").await;
    let api = world.api();
    let direct = world.template(20, |new| new).await;
    let holds = world.template(20, |new| new.held_for(HOLD)).await;
    let mut events = watch(api).await;
    let quiet = until_shown(&mut events, |sample| {
        let is_quiet = |id| of(sample, id).is_some_and(|one| one["drift"] == 0);
        is_quiet(direct) && is_quiet(holds)
    })
    .await;
    let fresh = of(&quiet, direct).unwrap();
    assert_eq!(
        (&fresh["state"], &fresh["gate_loaded"], &fresh["name"]),
        (&json!("open"), &json!(true), &json!("A sale"))
    );
    assert_eq!((&fresh["left"], &fresh["total"]), (&json!(20), &json!(20)));
    assert_eq!(quiet["left_out"], 0);

    let mut paid = None;
    for user in 1..=7 {
        let anna = api.shopper(UserId(user)).unwrap();
        assert_eq!(anna.claim(direct, None, 1).await.unwrap().status, 201);
        let held: Claimed = anna.claim(holds, Some("k"), 1).await.unwrap().json().unwrap();
        paid.get_or_insert(held.id);
    }
    // This process counts each answer in its own second.
    let again = api.shopper(UserId(1)).unwrap().claim(direct, Some("again"), 1).await.unwrap();
    assert_eq!(again.code().as_deref(), Some("LIMIT_REACHED"));
    let confirmed = api.confirm(paid.unwrap(), "a payment", None).await.unwrap();
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    let sold = until_shown(&mut events, |sample| {
        let settled =
            |id| of(sample, id).is_some_and(|one| one["landed"] == 7 && one["drift"] == 0);
        settled(direct) && settled(holds) && of(sample, holds).unwrap()["held"] == 6
    })
    .await;
    let direct = of(&sold, direct).unwrap();
    assert_eq!((&direct["confirmed"], &direct["held"]), (&json!(7), &json!(0)));
    assert_eq!((&direct["left"], &direct["in_flight"]), (&json!(13), &json!(0)));
    let holds = of(&sold, holds).unwrap();
    assert_eq!((&holds["confirmed"], &holds["left"]), (&json!(1), &json!(13)));
    assert!(holds["last_second"]["claims"].is_u64(), "{holds}");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_stock_at_the_end_of_its_range_is_not_known_and_hides_no_other_sale() {
    let world = World::start("live damaged").await;
    let api = world.api();
    let sound = world.template(20, |new| new).await;
    let damaged = world.template(20, |new| new).await;
    let mut events = watch(api).await;
    let both = |sample: &Value| of(sample, sound).is_some() && of(sample, damaged).is_some();
    until_shown(&mut events, both).await;
    let mut connection = world.mysql().await;
    for (total, stock) in [(i64::MAX, -5), (0, i64::MIN), (i64::MIN, i64::MAX)] {
        let sql = format!(
            "update template_stock set total = {total}, stock = {stock} where template_id = {damaged}"
        );
        verify::execute(&mut connection, &sql).await.unwrap();
        let sample = until_shown(&mut events, |sample| {
            both(sample) && of(sample, damaged).unwrap()["total"].is_null()
        })
        .await;
        assert_eq!(of(&sample, damaged).unwrap()["landed"], Value::Null, "{sample}");
        assert_eq!(of(&sample, sound).unwrap()["total"], 20, "{sample}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_merchant_sees_its_own_sales_and_nothing_of_the_platforms_servers() {
    let world = World::start("live merchants").await;
    let shop = merchant(&world, "A shop").await;
    let other = merchant(&world, "Another shop").await;
    let own = published(&world, &shop).await;
    let foreign = published(&world, &other).await;
    let later = world.clock.now() + TimeDelta::days(1);
    let ahead = NewTemplate::simple("Tomorrow", 5, later, TimeDelta::hours(1));
    let ahead = shop.publish_new(&ahead).await.unwrap().id;
    shop.turn(own, "pause").await.unwrap();
    // By a session, as the console watches.
    let browser = Browser::sign_in(&shop).await;
    let asked = browser.bare(world.api(), Method::GET, LIVE);
    let mut events =
        Events::open(LIVE, asked.header("sec-fetch-site", "same-origin")).await.unwrap();
    let seen = until_shown(&mut events, |sample| {
        of(sample, own).is_some_and(|one| one["state"] == "paused") && sample["impact"].is_object()
    })
    .await;
    assert_eq!(seen["templates"].as_array().unwrap().len(), 1, "{seen}");
    assert!(of(&seen, foreign).is_none() && of(&seen, ahead).is_none(), "{seen}");
    let impact = &seen["impact"];
    assert_eq!((&impact["cause"], &impact["action"]), (&Value::Null, &Value::Null));
    assert!(impact["sentence"].is_string() && impact["also"] == json!([]), "{impact}");

    let night = json!({ "name": "night", "scopes": ["emergency"] });
    let night = made(world.api(), "/v1/api-keys", &night).await;
    let night = world.api().with_operator_key(night["key"].as_str().unwrap());
    for api in [world.api(), &night] {
        let mut events = watch(api).await;
        let both = |sample: &Value| of(sample, own).is_some() && of(sample, foreign).is_some();
        let seen = until_shown(&mut events, |sample| both(sample) && sample["impact"].is_object());
        let seen = seen.await;
        let health = api.send(api.operator(Method::GET, "/v1/health")).await.unwrap();
        let health: Value = health.json().unwrap();
        let fields = |impact: &Value| -> Vec<String> {
            impact.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(fields(&seen["impact"]), fields(&health["impact"]));
    }
    let (till, _) = key(&shop, "redeem").await;
    let refused = Events::open(LIVE, self::asked(&till)).await;
    assert_eq!(refusal(refused), (403, json!("SCOPE_LACKING")));
    world.end().await;
}

/// Makes a key of the operator's merchant; returns its operator and its path.
async fn key(api: &Api, scope: &str) -> (Api, String) {
    let key = made(api, "/v1/api-keys", &json!({ "name": scope, "scopes": [scope] })).await;
    let path = format!("/v1/api-keys/{}", key["id"].as_str().unwrap());
    (api.with_operator_key(key["key"].as_str().unwrap()), path)
}

#[tokio::test]
async fn a_stream_ends_when_its_key_does_and_others_go_on() {
    let world = World::start("live key").await;
    let api = world.api();
    let (guest, path) = key(api, "read").await;
    let mut stays = watch(api).await;
    let mut ends = watch(&guest).await;
    until_shown(&mut ends, |_| true).await;
    let revoked = api.send(api.operator(Method::DELETE, &path)).await.unwrap();
    assert_eq!(revoked.status, 204, "{revoked:?}");
    let ended = async { while ends.next().await.unwrap().is_some() {} };
    timeout(SHOWN_WITHIN, ended).await.expect("the stream ends with its key");
    until_shown(&mut stays, |_| true).await;
    let again = Events::open(LIVE, asked(&guest)).await;
    assert_eq!(refusal(again), (401, json!("UNAUTHENTICATED")));
    world.end().await;
}

#[tokio::test]
async fn viewers_are_bounded_and_requests_are_answered_beside_them() {
    let few = |options: PlatformOptions| options.with_env("CONNECTIONS_MAX", CONNECTIONS);
    let world = World::start_with("live viewers", few).await;
    let shop = merchant(&world, "A shop").await;
    let mut open = Vec::new();
    for _ in 0..OF_MERCHANT {
        open.push(watch(&shop).await);
    }
    let more = Events::open(LIVE, asked(&shop)).await;
    assert_eq!(refusal(more), (429, json!("TOO_MANY_AT_ONCE")));
    while open.len() < VIEWERS {
        open.push(watch(world.api()).await);
    }
    let more = Events::open(LIVE, asked(world.api())).await;
    assert_eq!(refusal(more), (503, json!("OVERLOADED")));
    for events in &mut open {
        until_shown(events, |_| true).await;
    }
    let list = shop.send(shop.operator(Method::GET, "/v1/templates")).await.unwrap();
    assert_eq!(list.status, 200, "{list:?}");
    // A place that becomes free goes to the next viewer.
    drop(open);
    let free = async || Events::open(LIVE, asked(&shop)).await.ok();
    pipeline_tests::until(free, Option::is_some).await;
    world.end().await;
}

#[tokio::test]
async fn the_command_line_follows_all_sales_line_by_line() {
    let world = World::start("coupon live").await;
    let template = world.template(20, |new| new).await;
    let said = Cli::of(&world).run("live --for 4").await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("20 left of 20"), "{said:?}");
    let said = Cli::of(&world).run("live --for 4 --json").await;
    let samples: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(samples.iter().any(|sample| of(sample, template).is_some()), "{said:?}");
    let said = Cli::of(&world).with("OPERATOR_KEY", "x").run("live --for 4").await;
    assert!(said.code == 1 && said.err.contains("is not accepted"), "{said:?}");
    world.end().await;
}
