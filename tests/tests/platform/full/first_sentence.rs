//! The first sentence about a platform of which something dies: what works, why the rest does not, and what to do.

use std::time::Instant;

use coupon::{TemplateId, UserId};
use devstack::{Flavor, OwnBroker, OwnDatabase, OwnRedis, PlatformOptions, Process, TestServers};
use mysql_store::verify;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::Api;

use crate::{claims::full::epochs::command, operators::cli::Cli};

/// A platform with two apis on servers of its own.
struct Stack {
    world: World,
    database: OwnDatabase,
    gate: OwnRedis,
    view: OwnRedis,
    broker: OwnBroker,
}

/// Something that dies, and what is said of it.
struct Death {
    of: fn(&mut Stack) -> &mut Process,
    /// How the cause begins.
    cause: &'static str,
    /// Of claims, queued claims, payments, lists and expiry.
    abilities: [&'static str; 5],
}

/// Each server and each process, an api at the end.
const DEATHS: [Death; 10] = [
    Death {
        of: |stack| &mut stack.database.server,
        cause: "MySQL at ",
        abilities: ["stopped", "late", "stopped", "late", "stopped"],
    },
    Death {
        of: |stack| &mut stack.gate.server,
        cause: "the gate's Redis at ",
        abilities: ["stopped", "stopped", "works", "works", "works"],
    },
    Death {
        of: |stack| &mut stack.broker.server,
        cause: "Kafka at ",
        abilities: ["works", "late", "late", "late", "works"],
    },
    Death {
        of: |stack| &mut stack.view.server,
        cause: "the view's Redis at ",
        abilities: ["works", "works", "works", "works", "works"],
    },
    Death {
        of: |stack| &mut stack.world.platform.relay,
        cause: "outbox-relay at ",
        abilities: ["works", "late", "works", "works", "works"],
    },
    Death {
        of: |stack| &mut stack.world.platform.lander,
        cause: "claim-lander at ",
        abilities: ["works", "late", "late", "works", "works"],
    },
    Death {
        of: |stack| &mut stack.world.platform.cdc_tailer,
        cause: "cdc-tailer at ",
        abilities: ["works", "works", "works", "late", "works"],
    },
    Death {
        of: |stack| &mut stack.world.platform.sync_consumer,
        cause: "sync-consumer at ",
        abilities: ["works", "works", "works", "late", "works"],
    },
    Death {
        of: |stack| &mut stack.world.platform.expiry_worker,
        cause: "expiry-worker at ",
        abilities: ["works", "works", "works", "works", "stopped"],
    },
    Death {
        of: |stack| &mut stack.world.platform.apis[1],
        cause: "api at ",
        abilities: ["works", "works", "works", "works", "works"],
    },
];

impl Stack {
    async fn start() -> Self {
        let database = OwnDatabase::start("first-sentence", Flavor::Mariadb, &[]).await.unwrap();
        let gate = OwnRedis::gate("first-sentence-gate").await.unwrap();
        let view = OwnRedis::view("first-sentence-view", &[]).await.unwrap();
        let broker = OwnBroker::start("first-sentence-broker").await.unwrap();
        let servers = TestServers::shared()
            .with_database(&database.url())
            .with_gate(&gate.url())
            .with_view(&view.url());
        let scope = servers.scope("first sentence").with_broker(&broker.brokers());
        verify::copy_schema(&scope.endpoints.database_url).await.unwrap();
        let two_apis = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_as_with(scope, two_apis, |_| ()).await;
        Self { world, database, gate, view, broker }
    }

    async fn until_well(&self) {
        until(async || health(self.world.api()).await, |seen| seen["impact"]["state"] == "well")
            .await;
    }

    /// Claims one coupon for a user who has none; returns whether it is answered with one.
    async fn claims(&self, template: TemplateId, user: i64) -> bool {
        let shopper = self.world.api().shopper(UserId(user)).unwrap();
        shopper.claim(template, Some("a-key"), 1).await.unwrap().status == 201
    }
}

/// Returns what the api says of the platform; null if it says nothing.
async fn health(api: &Api) -> Value {
    let answer = api.send(api.operator(Method::GET, "/v1/health")).await;
    answer.ok().and_then(|answer| answer.json().ok()).unwrap_or_default()
}

fn abilities(seen: &Value) -> [&str; 5] {
    ["claims", "queued_claims", "payments", "lists", "expiry"]
        .map(|name| seen["impact"][name].as_str().unwrap_or_default())
}

#[tokio::test]
async fn each_process_and_server_that_dies_is_named_within_seconds_with_what_still_works() {
    let mut stack = Stack::start().await;
    let template = stack.world.template(100, |new| new).await;
    let cli = Cli::of(&stack.world);
    for (user, death) in (1..).zip(DEATHS) {
        stack.until_well().await;
        let shown = until(async || cli.run("health").await, |shown| shown.code == 0).await;
        assert!(shown.out.starts_with("All is well: "), "{shown:?}");
        (death.of)(&mut stack).kill().unwrap();
        let died = Instant::now();
        let is_said = |seen: &Value| {
            let cause = seen["impact"]["cause"].as_str().unwrap_or_default();
            // No figure is left of what nobody knows any more.
            let is_honest = abilities(seen)[3] != "late" || seen["list_lag_seconds"].is_null();
            cause.starts_with(death.cause) && abilities(seen) == death.abilities && is_honest
        };
        let seen = until(async || health(stack.world.api()).await, is_said).await;
        println!("{} after {} ms: {}", death.cause, died.elapsed().as_millis(), seen["impact"]);
        assert_said(&seen, &death);

        let shown = cli.run("health").await;
        assert_eq!((shown.code, shown.err.as_str()), (4, ""), "{shown:?}");
        assert!(shown.out.lines().next().unwrap().contains(death.cause), "{shown:?}");
        let works = death.abilities[0] == "works";
        assert_eq!(stack.claims(template, user).await, works, "claims, without {}", death.cause);
        (death.of)(&mut stack).start().await.unwrap();
    }
    stack.until_well().await;

    // The api that is asked: the other one says it.
    stack.world.platform.apis[0].kill().unwrap();
    let shown = cli.run("health").await;
    assert_eq!((shown.code, shown.out.as_str()), (3, ""), "{shown:?}");
    assert!(shown.err.starts_with("coupon: Health cannot be read. Nobody answers"), "{shown:?}");
    let other = &stack.world.apis[1];
    let names_it =
        |seen: &Value| seen["impact"]["cause"].as_str().is_some_and(|it| it.starts_with("api at "));
    until(async || health(other).await, names_it).await;
    stack.world.platform.apis[0].start().await.unwrap();
    stack.until_well().await;
    let Stack { mut world, .. } = stack;
    // The verifier's own connections broke too.
    world.sources = verifier::Sources::connect(&world.settings()).await.unwrap();
    world.assert_sound(None).await;
    world.end().await;
}

/// Asserts that the rest of the answer agrees.
fn assert_said(seen: &Value, death: &Death) {
    let impact = &seen["impact"];
    let claims = death.abilities[0];
    let state = if claims == "stopped" { "down" } else { "degraded" };
    assert_eq!(impact["state"], state, "{seen}");
    let sentence = impact["sentence"].as_str().unwrap();
    let sells = if claims == "stopped" { "Not selling; " } else { "Selling; " };
    assert!(sentence.starts_with(sells) && sentence.contains(death.cause), "{sentence}");
    assert!(impact["since"].is_string() && impact["action"].is_string(), "{impact}");
    let can_look = claims == "works";
    assert_eq!(seen["gates_not_loaded"].is_null(), !can_look, "{seen}");
    // A dead process keeps its name.
    let names = seen["processes"].as_array().unwrap().iter().map(|one| &one["process"]);
    assert_eq!(names.filter(|name| name.is_string()).count(), 7, "{seen}");
}

#[tokio::test]
async fn a_key_of_the_last_minutes_reads_health_while_mysql_is_away_and_pauses_at_the_gate() {
    let mut database = OwnDatabase::start("recent-key", Flavor::Mariadb, &[]).await.unwrap();
    let servers = TestServers::shared().with_database(&database.url());
    let world = World::start_on(&servers, "recent key", |options| options).await;
    let template = world.template(5, |new| new).await;
    let key = async |name: &str| {
        let body = json!({ "name": name, "scopes": ["emergency"] });
        let request = world.api().operator(Method::POST, "/v1/api-keys").json(&body);
        let made: Value = world.api().send(request).await.unwrap().json().unwrap();
        made["key"].as_str().unwrap().to_owned()
    };
    let night = key("night").await;
    let seen_before = world.api().with_operator_key(&night);
    let never_seen = world.api().with_operator_key(&key("spare").await);
    assert!(health(&seen_before).await["impact"].is_object());

    database.server.kill().unwrap();
    let is_down = |seen: &Value| seen["impact"]["state"] == "down";
    // Longer than a key counts as fresh.
    until(async || health(&seen_before).await, is_down).await;
    let asked = async |api: &Api, method: Method, path: &str| {
        api.send(api.operator(method, path)).await.unwrap().code().unwrap_or_default()
    };
    assert_eq!(asked(&never_seen, Method::GET, "/v1/health").await, "STORE_UNAVAILABLE");
    let pause = format!("/v1/templates/{template}/pause");
    assert_eq!(asked(&never_seen, Method::POST, &pause).await, "STORE_UNAVAILABLE");
    let end = format!("/v1/templates/{template}/end");
    assert_eq!(asked(&seen_before, Method::POST, &end).await, "STORE_UNAVAILABLE");
    assert_eq!(asked(&seen_before, Method::POST, &pause).await, "", "it is paused there");
    let other_end = if night.ends_with('A') { "B" } else { "A" };
    let forged = format!("{}{other_end}", &night[..night.len() - 1]);
    let forged = world.api().with_operator_key(&forged);
    assert_eq!(asked(&forged, Method::GET, "/v1/health").await, "UNAUTHENTICATED");

    database.server.start().await.unwrap();
    until(async || health(&never_seen).await, |seen| seen["impact"]["state"] == "well").await;
    until(async || world.api().template(template).await.unwrap().state, |is| is == "paused").await;
    world.assert_sound(None).await;
    world.end().await;
}

/// A lock of all tables stands for a full disk: reads are answered, and no claim lands.
#[tokio::test]
async fn a_mysql_that_takes_no_writes_and_a_gate_that_takes_none_are_named_though_both_answer() {
    let database = OwnDatabase::start("no-writes", Flavor::Mariadb, &[]).await.unwrap();
    let gate = OwnRedis::gate("no-writes-gate").await.unwrap();
    let servers = TestServers::shared().with_database(&database.url()).with_gate(&gate.url());
    let world = World::start_on(&servers, "no writes", |options| options).await;
    let template = world.template(5, |new| new).await;
    let is_down = |seen: &Value, cause: &str| {
        let impact = &seen["impact"];
        let named = impact["cause"].as_str().is_some_and(|said| said.starts_with(cause));
        named && impact["claims"] == "stopped"
    };
    let is_well = |seen: &Value| seen["impact"]["state"] == "well";
    until(async || health(world.api()).await, is_well).await;

    let mut lock = world.mysql().await;
    verify::execute(&mut lock, "set wait_timeout = 600").await.unwrap();
    verify::execute(&mut lock, "flush tables with read lock").await.unwrap();
    let api = world.api().clone();
    let claim = tokio::spawn(async move {
        let shopper = api.shopper(UserId(1)).unwrap();
        shopper.claim(template, Some("a-key"), 1).await.unwrap().status
    });
    until(async || health(world.api()).await, |seen| is_down(seen, "MySQL at ")).await;
    assert_eq!(claim.await.unwrap(), 503);
    verify::execute(&mut lock, "unlock tables").await.unwrap();
    until(async || health(world.api()).await, is_well).await;

    command(&gate, "CONFIG SET min-replicas-to-write 1").await;
    let of_gate = "the gate's Redis at ";
    until(async || health(world.api()).await, |seen| is_down(seen, of_gate)).await;
    command(&gate, "CONFIG SET min-replicas-to-write 0").await;
    until(async || health(world.api()).await, is_well).await;
    world.assert_sound(None).await;
    world.end().await;
}
