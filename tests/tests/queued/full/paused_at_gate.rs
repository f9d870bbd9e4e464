//! A sale that is paused at its gate while MySQL is away: nothing is accepted from then on, and MySQL has the pause once
//! it is back, whatever dies meanwhile.

use std::sync::atomic::{AtomicI32, Ordering};

use coupon::TemplateId;
use devstack::{Flavor, OwnDatabase, OwnRedis, TestServers};
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    until,
};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api};

use crate::{
    claims::full::epochs::flush,
    queued::{KEY, accepted, after_topic, assert_sold, shopper, two_apis},
};

/// Two apis on a database and a gate that only this test uses.
struct Sale {
    database: OwnDatabase,
    gate: OwnRedis,
    world: World,
    template: TemplateId,
    /// Whoever is on call, at each api, by a key that both have seen.
    on_call: [Api; 2],
    key_id: String,
}

impl Sale {
    async fn start(name: &str) -> Self {
        let database = OwnDatabase::start(name, Flavor::Mariadb, &[]).await.unwrap();
        let gate = OwnRedis::gate(&format!("{name}-gate")).await.unwrap();
        let shared = TestServers::shared().with_database(&database.url()).with_gate(&gate.url());
        let world = World::start_on(&shared, name, two_apis).await;
        let template = world.template(10, after_topic).await;
        let (key_id, key) = made_key(&world, "emergency").await;
        let on_call = [0, 1].map(|api| world.apis[api].with_operator_key(&key));
        let sale = Self { database, gate, world, template, on_call, key_id };
        for api in &sale.on_call {
            assert_eq!(asked(api, Method::GET, "/v1/health").await.status, 200);
        }
        sale
    }

    fn path(&self, verb: &str) -> String {
        format!("/v1/templates/{}/{verb}", self.template)
    }

    /// Pauses at the gate by one of the apis; returns since when.
    async fn pause(&self, api: usize) -> Value {
        let answer = asked(&self.on_call[api], Method::POST, &self.path("pause")).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let body: Value = answer.json().unwrap();
        assert_eq!(body["paused_at_gate"], true, "{body}");
        body["since"].clone()
    }

    async fn until_state(&self, state: &str) {
        let show = async || self.world.apis[1].template(self.template).await;
        until(show, |shown| shown.as_ref().is_ok_and(|shown| shown.state == state)).await.unwrap();
        let halt = async || self.world.sources.gate.meta(self.template).await.ok().flatten();
        until(halt, |meta| meta.as_ref().is_none_or(|meta| meta.halt.is_none())).await;
    }

    async fn is_refused(&self, user: i64) {
        let anna = shopper(&self.world, 1, user);
        let claim = async || anna.claim(self.template, Some(KEY), 1).await.unwrap();
        // A gate that is being loaded admits nothing either.
        let claimed = until(claim, |answer| !answer.is_passing()).await;
        assert_eq!(claimed.code().as_deref(), Some("PAUSED"), "{claimed:?}");
    }

    /// The template's changes of state by operators, the oldest first, and who made the pauses.
    async fn changes(&self) -> (Vec<String>, Vec<Value>) {
        let path = format!("/v1/audit?target=templates/{}", self.template);
        let lines: Value = asked(&self.world.apis[1], Method::GET, &path).await.json().unwrap();
        let lines: Vec<&Value> = lines["data"].as_array().unwrap().iter().rev().collect();
        let verb = |line: &Value| {
            line["action"].as_str().unwrap().trim_start_matches("template.").to_owned()
        };
        let verbs: Vec<String> = lines.iter().map(|line| verb(line)).collect();
        let pauses = lines.iter().filter(|line| line["after"]["paused_at_gate"] == true);
        (verbs, pauses.map(|line| line["key_id"].clone()).collect())
    }
}

async fn made_key(world: &World, scope: &str) -> (String, String) {
    let body = json!({ "name": scope, "scopes": [scope] });
    let request = world.api().operator(Method::POST, "/v1/api-keys").json(&body);
    let made: Value = world.api().send(request).await.unwrap().json().unwrap();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("id"), text("key"))
}

async fn asked(api: &Api, method: Method, path: &str) -> Answer {
    api.send(api.operator(method, path)).await.unwrap()
}

#[tokio::test]
async fn a_sale_is_paused_at_its_gate_while_mysql_is_away_and_in_mysql_once_it_is_back() {
    let mut sale = Sale::start("gate-pause").await;
    let reader = made_key(&sale.world, "read").await.1;
    let reader = sale.world.apis[0].with_operator_key(&reader);
    assert_eq!(asked(&reader, Method::GET, sale.path("").trim_end_matches('/')).await.status, 200);
    sale.database.server.kill().unwrap();
    let mut promises = Promises::default();
    accepted(&mut promises, &shopper(&sale.world, 0, 1), sale.template).await;

    let lacks = asked(&reader, Method::POST, &sale.path("pause")).await;
    assert_eq!(lacks.code().as_deref(), Some("SCOPE_LACKING"), "{lacks:?}");
    // What only MySQL can judge is not done at the gate.
    let api = &sale.on_call[0];
    let pause = || api.operator(Method::POST, &sale.path("pause"));
    for request in
        [pause().header("if-match", "\"1\""), pause().json(&json!({ "accepted": "reject" }))]
    {
        let answer = api.send(request).await.unwrap();
        assert_eq!(answer.code().as_deref(), Some("STORE_UNAVAILABLE"), "{answer:?}");
    }
    for verb in ["resume", "end"] {
        let answer = asked(api, Method::POST, &sale.path(verb)).await;
        assert_eq!(answer.code().as_deref(), Some("STORE_UNAVAILABLE"), "{answer:?}");
    }
    accepted(&mut promises, &shopper(&sale.world, 1, 2), sale.template).await;

    let path = sale.path("pause");
    let caller = api.clone();
    let keyed = || caller.operator(Method::POST, &path).header("idempotency-key", "k");
    let first = api.send(keyed()).await.unwrap();
    assert_eq!(first.status, 202, "{first:?}");
    let since = first.json::<Value>().unwrap()["since"].clone();
    assert_eq!(sale.pause(0).await, since);
    assert_eq!(sale.pause(1).await, since, "it is one pause");
    sale.is_refused(3).await;

    sale.database.server.start().await.unwrap();
    sale.until_state("paused").await;
    sale.is_refused(3).await;
    assert_eq!(promises.kept(&sale.world).await, Ends::all_succeeded(2));
    let (verbs, by) = sale.changes().await;
    assert_eq!(verbs.last().map(String::as_str), Some("pause"), "{verbs:?}");
    assert_eq!(by, [json!(sale.key_id)], "one line, of who paused first");

    sale.world.apis[0].turn(sale.template, "resume").await.unwrap();
    let again = sale.on_call[1].send(keyed()).await.unwrap();
    assert_eq!((again.status, &again.body), (202, &first.body), "it pauses nothing again");
    accepted(&mut promises, &shopper(&sale.world, 0, 3), sale.template).await;
    assert_eq!(promises.kept(&sale.world).await, Ends::all_succeeded(3));
    assert_sold(&sale.world, sale.template, 3).await;
    sale.world.end().await;
}

#[tokio::test]
async fn a_pause_at_the_gate_outlives_the_api_that_made_it_and_one_in_an_apis_memory_the_gate() {
    let mut sale = Sale::start("gate-pause-dies").await;
    sale.database.server.kill().unwrap();
    sale.pause(0).await;
    sale.world.platform.apis[0].kill().unwrap();
    sale.database.server.start().await.unwrap();
    sale.until_state("paused").await;
    sale.world.platform.apis[0].start().await.unwrap();
    sale.world.apis[1].turn(sale.template, "resume").await.unwrap();
    sale.until_state("published").await;

    sale.database.server.kill().unwrap();
    sale.pause(1).await;
    sale.gate.server.kill().unwrap();
    sale.database.server.start().await.unwrap();
    let show = async || sale.world.apis[1].template(sale.template).await;
    until(show, |shown| shown.as_ref().is_ok_and(|shown| shown.state == "paused")).await.unwrap();
    sale.gate.server.start().await.unwrap();
    sale.until_state("paused").await;
    sale.is_refused(1).await;
    let (verbs, by) = sale.changes().await;
    assert_eq!(verbs[verbs.len() - 3..], ["pause", "resume", "pause"], "{verbs:?}");
    assert_eq!(by, [json!(sale.key_id), json!(sale.key_id)]);
    sale.world.end().await;
}

/// A gate that is lost while its pause waits for MySQL is not opened by an api that knows of the pause.
#[tokio::test]
async fn a_gate_that_is_lost_behind_its_pause_opens_paused() {
    let mut sale = Sale::start("gate-pause-lost").await;
    sale.database.server.kill().unwrap();
    sale.pause(0).await;
    sale.pause(1).await;
    flush(&sale.gate).await;
    sale.database.server.start().await.unwrap();
    let taken = AtomicI32::new(0);
    let claimed = async || shopper(&sale.world, 1, 5).claim(sale.template, Some(KEY), 1).await;
    let is_paused = |answer: &Result<Answer, _>| {
        let answer = answer.as_ref().unwrap();
        taken.fetch_add(i32::from(answer.status == 202), Ordering::Relaxed);
        answer.code().as_deref() == Some("PAUSED")
    };
    until(claimed, is_paused).await.unwrap();
    assert_eq!(taken.into_inner(), 0, "both apis knew of the pause");
    sale.until_state("paused").await;
    sale.world.end().await;
}

/// What somebody wrote into the gate by hand stops the sale, and a resume ends it.
#[tokio::test]
async fn a_pause_at_the_gate_that_nobody_can_read_is_carried_over_and_ended_by_a_resume() {
    let sale = Sale::start("gate-pause-garbage").await;
    for garbage in [&b"\xff\xfe\0"[..], b"{\"audit_id\":-1}", b""] {
        sale.world.sources.gate.halt(sale.template, garbage).await.unwrap();
        sale.until_state("paused").await;
        let resume = async || asked(&sale.on_call[0], Method::POST, &sale.path("resume")).await;
        until(resume, |answer| answer.status == 200).await;
        sale.until_state("published").await;
    }
    sale.world.end().await;
}

/// A resume that comes before any process has carried the pause over does so itself, and is not undone.
#[tokio::test]
async fn a_resume_at_the_moment_of_mysqls_return_stands() {
    let mut sale = Sale::start("gate-pause-resume").await;
    for round in 1..=3 {
        sale.database.server.kill().unwrap();
        sale.pause(0).await;
        sale.database.server.start().await.unwrap();
        let resume = async || asked(&sale.world.apis[1], Method::POST, &sale.path("resume")).await;
        until(resume, |answer| answer.status == 200).await;
        sale.until_state("published").await;
        let (verbs, by) = sale.changes().await;
        assert_eq!(by.len(), round, "{verbs:?}");
        assert_eq!(verbs.last().map(String::as_str), Some("resume"), "{verbs:?}");
        let mut promises = Promises::default();
        let anna = shopper(&sale.world, 0, i64::try_from(round).unwrap());
        accepted(&mut promises, &anna, sale.template).await;
        assert_eq!(promises.kept(&sale.world).await, Ends::all_succeeded(1));
    }
    sale.world.end().await;
}
