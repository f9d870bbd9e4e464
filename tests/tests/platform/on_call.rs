//! What an operator on call sees and may do: a server that is away shows within seconds and is logged once, each
//! request has an id and a line, and a sale of any merchant can be stopped.

use std::{collections::BTreeMap, fs};

use chrono::{DateTime, Utc};
use coupon::UserId;
use devstack::{OwnBroker, OwnRedis, PlatformOptions, Process, TestServers};
use mysql_store::verify;
use pipeline_tests::{World, damage, until};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed};

use crate::operators::cli::Cli;

async fn sent(api: &Api, request: RequestBuilder) -> Answer {
    api.send(request).await.unwrap()
}

async fn get(api: &Api, path: &str) -> Answer {
    sent(api, api.operator(Method::GET, path)).await
}

async fn post(api: &Api, path: &str, body: &Value) -> Answer {
    let request = api.operator(Method::POST, path);
    sent(api, if body.is_null() { request } else { request.json(body) }).await
}

fn body(answer: &Answer) -> Value {
    answer.json().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap_or_default())
}

/// Returns what a process says about itself.
async fn readyz(process: &Process) -> Option<Value> {
    let answer = process.answer("/readyz").await?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// Returns whether a process says that Kafka is up, and since when it is or is not.
async fn kafka_of(process: &Process) -> Option<(bool, DateTime<Utc>)> {
    let readyz = readyz(process).await?;
    let kafka = readyz.pointer("/parts/kafka")?;
    Some((kafka["up"].as_bool()?, kafka["since"].as_str()?.parse().ok()?))
}

/// Waits until a process says that Kafka is up, or is not; returns since when.
async fn until_kafka(process: &Process, up: bool) -> DateTime<Utc> {
    let is_so = |seen: &Option<(bool, DateTime<Utc>)>| seen.is_some_and(|(is_up, _)| is_up == up);
    until(async || kafka_of(process).await, is_so).await.unwrap().1
}

#[tokio::test]
async fn a_slow_request_has_a_line_at_info_and_others_have_none() {
    let world = World::start("slow request").await;
    let api = world.api();
    let template = world.template(5, |new| new).await;
    let mut holder = world.mysql().await;
    let lock = format!("select * from coupon_template where id = {template} for update");
    for statement in ["set autocommit = 0", &lock] {
        verify::execute(&mut holder, statement).await.unwrap();
    }
    let pause = format!("/v1/templates/{template}/pause");
    let pausing = api.operator(Method::POST, &pause).header("x-request-id", "waits-for-a-row");
    let pausing = tokio::spawn({
        let api = api.clone();
        async move { sent(&api, pausing).await }
    });
    // The server tells whole seconds, so it has been waiting for at least one.
    // `innodb_trx` would be stale: it is not read anew while several tests ask for it.
    let waits = "select count(*) from information_schema.processlist \
                 where db = database() and command in ('Query', 'Execute') and time >= 2";
    let mut watcher = world.mysql().await;
    until(async || verify::number(&mut watcher, waits).await.unwrap(), |count| *count > 0).await;
    drop(holder);
    assert_eq!(pausing.await.unwrap().status, 200);
    assert_eq!(get(api, "/v1/whoami").await.status, 200);
    let log = fs::read_to_string(world.platform.apis[0].log()).unwrap();
    let mut lines = log.lines().filter(|line| line.contains("a slow request"));
    let line = lines.find(|line| line.contains("waits-for-a-row"));
    let line = line.unwrap_or_else(|| panic!("no line of it: {log}"));
    let route = "/v1/templates/{id}/{verb}";
    for part in ["INFO", "POST", route, "http.status=200", "ms=", "platform"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!log.contains("a request"), "without RUST_LOG only slow ones have a line: {log}");
    world.end().await;
}

/// Makes a merchant and returns its id and its operator.
async fn merchant(world: &World) -> (String, Api) {
    let made = body(&post(world.api(), "/v1/merchants", &json!({ "name": "A shop" })).await);
    let key = json!({ "name": "owner", "scopes": ["admin"], "merchant_id": made["id"] });
    let key = body(&post(world.api(), "/v1/api-keys", &key).await);
    (text(&made["id"]).to_owned(), world.api().with_operator_key(text(&key["key"])))
}

#[tokio::test]
async fn whoever_is_on_call_stops_any_sale_and_the_record_says_who_it_was() {
    let world = World::start_queued("emergency").await;
    let platform = world.api();
    let (shop_id, shop) = merchant(&world).await;
    let new =
        shopper::NewTemplate::simple("Theirs", 10, world.clock.now(), chrono::TimeDelta::hours(1));
    let path = format!("/v1/templates/{}", shop.publish_new(&new).await.unwrap().id);
    let night = json!({ "name": "night", "scopes": ["emergency"] });
    let made = body(&post(platform, "/v1/api-keys", &night).await);
    let on_call = platform.with_operator_key(text(&made["key"]));

    for api in [&on_call, platform] {
        assert_eq!(get(api, &path).await.status, 200);
        assert_eq!(get(api, &format!("{path}/stock")).await.status, 200);
        assert_eq!(post(api, &format!("{path}/pause"), &Value::Null).await.status, 200);
        assert_eq!(body(&get(&shop, &path).await)["state"], "paused");
        assert_eq!(post(api, &format!("{path}/resume"), &Value::Null).await.status, 200);
    }
    let lacking = (403, "SCOPE_LACKING".to_owned());
    assert_eq!(refused(&post(&on_call, &format!("{path}/end"), &Value::Null).await), lacking);
    // A halt takes nothing from users. This key may end a drain, whose claims are lost anyway, but not reject claims.
    let reject = json!({ "accepted": "reject" });
    assert_eq!(refused(&post(&on_call, &format!("{path}/pause"), &reject).await), lacking);
    let meant = json!({ "confirm": "Theirs" });
    let drain = post(&on_call, &format!("{path}/drain-end"), &meant).await;
    assert_eq!(refused(&drain), (409, "NO_DRAIN".to_owned()), "it may, but none waits");
    let foreign = (404, "TEMPLATE_NOT_FOUND".to_owned());
    assert_eq!(refused(&post(platform, &format!("{path}/end"), &Value::Null).await), foreign);
    assert_eq!(get(&on_call, "/v1/health").await.status, 200);
    let platform_only = (403, "PLATFORM_ONLY".to_owned());
    assert_eq!(refused(&get(&shop, "/v1/health").await), platform_only);

    // Only the platform's own key may create such a key, and no other key may replace it.
    assert_eq!(refused(&post(&shop, "/v1/api-keys", &night).await), platform_only);
    let admin = json!({ "name": "admin", "scopes": ["admin"] });
    let admin = body(&post(platform, "/v1/api-keys", &admin).await);
    let admin = platform.with_operator_key(text(&admin["key"]));
    let rotate = format!("/v1/api-keys/{}/rotate", text(&made["id"]));
    assert_eq!(refused(&post(&admin, &rotate, &json!({})).await), platform_only);
    let theirs = json!({ "name": "x", "scopes": ["emergency"], "merchant_id": shop_id });
    let invalid = (422, "INVALID_KEY".to_owned());
    assert_eq!(refused(&post(platform, "/v1/api-keys", &theirs).await), invalid);

    let record = async |query: &str| {
        let answer = get(platform, &format!("/v1/audit?merchant_id={shop_id}{query}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        body(&answer)["data"].as_array().unwrap().clone()
    };
    let by_night = record(&format!("&key_id={}", text(&made["id"]))).await;
    let actions: Vec<&str> = by_night.iter().map(|line| text(&line["action"])).collect();
    assert_eq!(actions, ["template.resume", "template.pause"]);
    assert!(by_night.iter().all(|line| line["key_name"] == "night"), "{by_night:?}");
    let by_platform = record("&key_id=platform").await;
    assert!(by_platform.iter().all(|line| line["key_id"].is_null()) && by_platform.len() >= 2);
    let pause = text(&by_night[1]["at"]);
    let resume = text(&by_night[0]["at"]);
    let window = record(&format!("&from={pause}&to={resume}&target={}", &path[4..])).await;
    assert_eq!(window.last().unwrap()["action"], "template.pause", "the end is not included");
    assert_eq!(record("&to=1971-01-01T00:00:00Z").await, [] as [Value; 0]);
    for wrong in ["key_id=me", "from=yesterday"] {
        let answer = get(platform, &format!("/v1/audit?{wrong}")).await;
        assert_eq!(refused(&answer), (400, "MALFORMED_QUERY".to_owned()), "{wrong}");
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_request_has_an_id_and_a_line_and_a_key_can_ask_whose_it_is() {
    let world = World::start_queued_with("request ids", |it| {
        it.with_env("RUST_LOG", "info,api::access=debug")
    })
    .await;
    let api = world.api();
    let asked = async |id: &str| {
        let request = api.anonymous(Method::GET, "/nowhere").header("x-request-id", id);
        let answer = sent(api, request).await;
        let named = text(&body(&answer)["request_id"]).to_owned();
        assert_eq!(answer.header("x-request-id"), Some(named.as_str()));
        named
    };
    assert_eq!(asked("sale-7/retry.2").await, "sale-7/retry.2");
    for odd in ["two words", "a,b", &"x".repeat(65)] {
        assert_eq!(asked(odd).await.len(), 32, "{odd}");
    }
    let template = world.template(5, |new| new).await;
    let shopper = api.shopper(UserId(42)).unwrap();
    let answer = shopper.claim(template, None, 1).await.unwrap();
    let id = answer.header("x-request-id").unwrap();
    let claimed = answer.json::<Claimed>().unwrap();
    let log = fs::read_to_string(world.platform.apis[0].log()).unwrap();
    let line = log.lines().find(|line| line.contains(id) && line.contains("a request"));
    let line = line.unwrap_or_else(|| panic!("no line of {id}: {log}"));
    let claim = format!("claim.id={}", claimed.id);
    for part in ["/v1/templates/{id}/claims", "http.status=201", "ms=", "user.id=42", &claim] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let started = log.lines().next().unwrap();
    assert!(started.contains("started") && started.contains("commit="), "{started}");

    let own = body(&get(api, "/v1/whoami").await);
    assert_eq!((&own["key_id"], &own["name"]), (&Value::Null, &json!("platform")));
    let till =
        body(&post(api, "/v1/api-keys", &json!({ "name": "till", "scopes": ["redeem"] })).await);
    let till_api = api.with_operator_key(text(&till["key"]));
    let own = body(&get(&till_api, "/v1/whoami").await);
    assert_eq!((&own["key_id"], &own["name"]), (&till["id"], &json!("till")));
    assert_eq!((&own["scopes"], &own["ends_at"]), (&json!(["redeem"]), &Value::Null));
    let nobody = get(&api.with_operator_key("ck_1_no"), "/v1/whoami").await;
    assert_eq!(refused(&nobody), (401, "UNAUTHENTICATED".to_owned()));

    let cli = Cli::of(&world);
    assert_eq!(cli.json("whoami").await["name"], "platform");
    // A list's age is known once the tailer has read the tables.
    let shown = until(async || cli.run("health").await, |shown| shown.code == 0).await;
    assert!(shown.out.starts_with("All is well: "), "{shown:?}");
    assert!(shown.out.contains("expiry-worker"), "{shown:?}");
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn kafka_away_shows_in_every_process_and_claims_go_on() {
        let mut broker = OwnBroker::start("on-call-broker").await.unwrap();
        let mut scope = TestServers::shared().scope("kafka away");
        scope.endpoints.kafka_brokers = broker.brokers();
        verify::copy_schema(&scope.endpoints.database_url).await.unwrap();
        let mut world = World::start_as(scope, |_| ()).await;
        let template = world.template(10, |new| new).await;
        let health = async |api: &Api| body(&get(api, "/v1/health").await);
        // A list's age is known once the tailer has read the tables.
        let is_ready =
            |seen: &Value| seen["status"] == "ready" && seen["list_lag_seconds"].is_number();
        let seen = until(async || health(world.api()).await, is_ready).await;
        assert_eq!(seen["processes"].as_array().unwrap().len(), 6, "{seen}");
        assert!(seen["leader"].is_string(), "{seen}");

        let mut since = BTreeMap::new();
        for process in world.platform.processes() {
            since.insert(process.name().to_owned(), until_kafka(process, true).await);
        }
        broker.server.kill().unwrap();
        for process in world.platform.processes() {
            let down = until_kafka(process, false).await;
            let up = since.insert(process.name().to_owned(), down);
            assert!(up.is_some_and(|up| up < down), "{}: up since {up:?}", process.name());
            let is_api = process.name() == "api";
            assert_eq!(
                process.is_ready().await,
                is_api,
                "{} is degraded, or unready",
                process.name()
            );
        }
        let consumer = &world.platform.sync_consumer;
        let lag = async || consumer.metric("sync_consumer_lag_seconds").await;
        until(lag, |lag| lag.is_some_and(f64::is_nan)).await;
        let figures = consumer.answer("/metrics").await.unwrap();
        let up_to = |figures: &str| {
            let mut lines = figures.lines().filter(|line| line.starts_with("process_up_to{"));
            lines.find(|line| line.contains("server=\"kafka\"")).unwrap().ends_with(" 0")
        };
        assert!(up_to(&figures) && figures.contains("process_ready 0"), "{figures}");
        let seen = health(world.api()).await;
        assert_eq!(
            (&seen["status"], &seen["list_lag_seconds"]),
            (&json!("not ready"), &Value::Null)
        );
        assert_eq!(seen["publish_lag_seconds"], Value::Null);
        let impact = &seen["impact"];
        assert_eq!((&impact["state"], &impact["claims"]), (&json!("degraded"), &json!("works")));
        assert!(text(&impact["sentence"]).starts_with("Selling; "), "{impact}");
        let shopper = world.api().shopper(UserId(1)).unwrap();
        assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
        for process in world.platform.processes() {
            let still = Some((false, since[process.name()]));
            assert_eq!(kafka_of(process).await, still, "{}: the same outage", process.name());
        }

        broker.server.start().await.unwrap();
        for process in world.platform.processes() {
            assert!(until_kafka(process, true).await > since[process.name()], "{}", process.name());
        }
        until(async || health(world.api()).await, |seen| seen["status"] == "ready").await;
        world.assert_sound(None).await;
        let log = fs::read_to_string(world.platform.apis[0].log()).unwrap();
        let of_kafka = log.lines().filter(|line| line.contains("kafka at ")).count();
        assert!((2..=4).contains(&of_kafka), "a line at once and one at the end: {log}");
        world.end().await;
    }

    /// Claims need no view, so the api stays ready: no balancer takes it away.
    #[tokio::test]
    async fn a_view_that_stops_evicting_shows_in_the_api_which_stays_ready() {
        let view = OwnRedis::view("on-call-view", &[]).await.unwrap();
        let servers = TestServers::shared().with_view(&view.url());
        let without_queue = |options| PlatformOptions { queue: false, ..options };
        let world = World::start_on(&servers, "no eviction", without_queue).await;
        let api = &world.platform.apis[0];
        let of_view = async || readyz(api).await.map(|seen| seen["degraded"]["view"].clone());
        let set = async |policy: &str| {
            let command = format!("CONFIG SET maxmemory-policy {policy}");
            assert_eq!(damage::send(&world, &command).await.as_deref(), Some("+OK\r\n"));
        };
        until(of_view, |seen| *seen == Some(Value::Null)).await;
        set("noeviction").await;
        let seen =
            until(of_view, |seen| seen.as_ref().is_some_and(Value::is_string)).await.unwrap();
        assert!(text(&seen).contains("config set maxmemory-policy allkeys-lru"), "{seen}");
        assert!(api.is_ready().await, "degraded, not unready");
        set("volatile-lru").await;
        until(of_view, |seen| *seen == Some(Value::Null)).await;
        world.end().await;
    }
}
