//! Hundreds of hostile inputs, each answered by a problem with its code. Nothing changes, nothing panics, and no
//! log contains a secret.

mod coupons;
mod holds;
mod keys;
mod looks;
mod merchants;
mod operators;
mod orders;
mod quantities;
mod raw;
mod receipts;
mod repairs;
mod reports;
mod tokens;
mod wire;

use std::fs;

use chrono::TimeDelta;
use coupon::{CouponId, TemplateId, UserId};
use devstack::{Flavor, TestServers};
use pipeline_tests::{World, until};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use shopper::{Answer, Api, Claimed, NewTemplate, Shopper};

use crate::http::full::openapi::is_documented;

/// Name, request, expected status and code.
type Case = (String, RequestBuilder, u16, &'static str);

/// An id that does not exist.
const NOTHING: &str = "4611686018427387904";

/// Fewest hostile inputs: all that are sent, so that none is lost unseen. Add to it with new ones.
const CASES_MIN: usize = 841;

/// The data that the inputs target.
struct Targets {
    world: World,
    api: Api,
    /// Published, limit 1; the victim holds one.
    one: TemplateId,
    /// Published, limit 5, up to three per claim.
    several: TemplateId,
    draft: TemplateId,
    /// Paused by its operator.
    paused: TemplateId,
    ended: TemplateId,
    /// The attacker, with a valid token.
    attacker: Shopper,
    victim: Shopper,
    coupon: CouponId,
    claim: String,
    /// A user whose claim was accepted into a queue, and where it is followed.
    waiter: Shopper,
    location: String,
    strangers: merchants::Strangers,
}

impl Targets {
    async fn prepare(servers: &TestServers) -> Self {
        // Debug logs are checked for secrets too.
        let world = World::start_on(servers, "bad input", |options| {
            options.with_env("RUST_LOG", "debug,rdkafka=info,librdkafka=info")
        })
        .await;
        let api = world.api().clone();
        let one = world.template(10, |new| new).await;
        let several = |new| NewTemplate { per_user_limit: 5, max_per_claim: 3, ..new };
        let several = world.template(10, several).await;
        let draft = NewTemplate::simple("A draft", 5, world.clock.now(), TimeDelta::hours(1));
        let draft = api.create(&draft).await.unwrap().id;
        let [paused, ended] = [turned(&world, "pause").await, turned(&world, "end").await];
        let attacker = api.shopper(UserId(1)).unwrap();
        let victim = api.shopper(UserId(2)).unwrap();
        let claimed: Claimed = victim.claim(one, None, 1).await.unwrap().json().unwrap();
        let coupon = claimed.coupons[0].id;
        let claim = claimed.id.to_string();
        let answer = victim.use_coupon(coupon, "the-victims-order").await.unwrap();
        assert_eq!(answer.status, 200);
        // The gate learns of a landing a moment later.
        until(async || api.stock(one).await.unwrap(), |stock| stock.in_flight == Some(0)).await;
        let (waiter, location) = accepted(&world).await;
        let strangers = merchants::Strangers::prepare(&api).await;
        Self {
            world,
            api,
            one,
            several,
            draft,
            paused,
            ended,
            attacker,
            victim,
            coupon,
            claim,
            waiter,
            location,
            strangers,
        }
    }

    fn cases(&self) -> Vec<Case> {
        let cases = [
            tokens::cases(self),
            quantities::cases(self),
            keys::cases(self),
            looks::cases(self),
            holds::cases(self),
            coupons::cases(self),
            operators::cases(self),
            orders::cases(self),
            repairs::cases(self),
            reports::cases(self),
            merchants::cases(self),
            receipts::cases(self),
            wire::cases(self),
        ];
        cases.into_iter().flatten().collect()
    }

    /// Returns everything that an input could have changed, as the api reports it.
    async fn state(&self) -> Vec<String> {
        let operator = |path: String| self.api.operator(Method::GET, &path);
        let mut requests = vec![operator("/v1/templates?limit=100".to_owned())];
        for path in ["audit?limit=100", "api-keys", "merchants"] {
            requests.push(operator(format!("/v1/{path}")));
        }
        requests.push(self.strangers.admin.operator(Method::GET, "/v1/api-keys"));
        for template in [self.one, self.several, self.draft, self.paused, self.ended] {
            requests.push(operator(format!("/v1/templates/{template}/stock")));
        }
        for shopper in [&self.attacker, &self.victim] {
            for status in ["unused", "used", "expired"] {
                let path = format!("/v1/me/coupons?status={status}");
                requests.push(shopper.request(Method::GET, &path));
            }
        }
        let mut state = Vec::new();
        for request in requests {
            let answer = self.api.send(request).await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            let mut body: Value = answer.json().unwrap();
            // Uses of keys are written every few seconds, and these requests are uses.
            for key in body["items"].as_array_mut().into_iter().flatten() {
                key.as_object_mut().unwrap().remove("last_used_at");
            }
            state.push(body.to_string());
        }
        state
    }
}

/// Has a claim accepted into a queue, and waits until it has landed.
async fn accepted(world: &World) -> (Shopper, String) {
    let template = world.template(10, |new| new.in_mode("queued", "topic")).await;
    let waiter = world.api().shopper(UserId(3)).unwrap();
    let answer = waiter.claim(template, Some("the-waiters-key"), 1).await.unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    let location = answer.location.unwrap();
    let look = async || waiter.send(waiter.request(Method::GET, &location)).await.unwrap();
    until(look, |answer| answer.status == 200).await;
    (waiter, location)
}

/// Publishes a template, then changes its state by `verb`.
async fn turned(world: &World, verb: &str) -> TemplateId {
    let template = world.template(5, |new| new).await;
    world.api().turn(template, verb).await.unwrap().id
}

fn case(name: &str, request: RequestBuilder, status: u16, code: &'static str) -> Case {
    (name.to_owned(), request, status, code)
}

#[tokio::test]
async fn hostile_input_is_answered_by_a_problem_and_changes_nothing() {
    each_is_a_problem(Targets::prepare(&TestServers::shared()).await).await;
}

#[expect(clippy::print_stdout, reason = "the count")]
async fn each_is_a_problem(targets: Targets) {
    let world = &targets.world;
    let before = targets.state().await;
    let mut wrong = Vec::new();
    let cases = targets.cases();
    let count = cases.len() + raw::CASES.len();
    println!("{count} hostile inputs");
    assert!(count >= CASES_MIN, "{count} hostile inputs");
    let document = targets.api.anonymous(Method::GET, "/openapi.json");
    let document: Value = targets.api.send(document).await.unwrap().json().unwrap();
    let mut previous = String::new();
    for (name, request, status, code) in cases {
        let asked = request.try_clone().unwrap().build().unwrap();
        if !is_documented(&document, &asked, status, code) {
            wrong.push(format!("{name}: {status} {code} is not in the document"));
        }
        let answer = targets.api.send(request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{name}, behind {previous}: {error:?}"));
        previous.clone_from(&name);
        if !is_problem(&answer, status, code) {
            wrong.push(format!("{name}, not {status} {code}: {answer:?}"));
        }
    }
    wrong.extend(raw::wrong(world.platform.api_url()));
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    for (after, before) in targets.state().await.iter().zip(&before) {
        assert_eq!(after, before, "nothing has changed");
    }
    assert_eq!(world.count(targets.one).await.all() + world.count(targets.several).await.all(), 1);
    no_log_contains_a_secret(&targets);

    // A valid request works as usual.
    let claim = |quantity| targets.attacker.claim(targets.several, Some("good"), quantity);
    assert_eq!(claim(2).await.unwrap().status, 201);
    let reused = claim(1).await.unwrap();
    assert!(is_problem(&reused, 422, "IDEMPOTENCY_KEY_REUSED"), "{reused:?}");
    assert_eq!(world.count(targets.several).await.all(), 2);
    world.assert_sound(None).await;
    targets.world.end().await;
}

/// Whether the answer is a problem of this status and code that is not retryable and reveals no internals.
fn is_problem(answer: &Answer, status: u16, code: &str) -> bool {
    let Ok(body) = answer.json::<Value>() else { return false };
    let inside = ["sqlx", "mysql", "redis", "panicked", ".rs:"];
    answer.status == status
        && answer.content_type == "application/problem+json"
        && answer.header("x-content-type-options") == Some("nosniff")
        && answer.header("cache-control") == Some("no-store")
        && body["type"] == format!("urn:coupon:problem:{code}")
        && body["code"] == code
        && body["status"] == status
        && body["retryable"] == false
        && body["title"].is_string()
        && body["detail"].is_string()
        && !inside.into_iter().any(|word| answer.body.to_lowercase().contains(word))
}

fn no_log_contains_a_secret(targets: &Targets) {
    let platform = &targets.world.platform;
    let token = tokens::of(&targets.attacker);
    let keys = targets.strangers.keys.iter().map(String::as_str);
    let secrets = [
        platform.options.jwt_secret.as_str(),
        platform.options.receipt_secret.as_str(),
        platform.options.operator_key.as_str(),
        token.as_str(),
        token.rsplit('.').next().unwrap(),
        "the-victims-order",
    ];
    let secrets: Vec<&str> = secrets.into_iter().chain(keys).collect();
    let others = [
        &platform.relay,
        &platform.lander,
        &platform.cdc_tailer,
        &platform.sync_consumer,
        &platform.expiry_worker,
    ];
    for process in platform.apis.iter().chain(others) {
        let log = fs::read_to_string(process.log()).unwrap();
        for secret in &secrets {
            let found = log.lines().find(|line| line.contains(secret));
            assert_eq!(found, None, "{} contains a secret", process.name());
        }
    }
}

mod full {
    use super::*;

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn hostile_input_is_answered_by_a_problem_and_changes_nothing_in_a_mysql() {
        let Some(servers) = TestServers::on(Flavor::Mysql) else { return };
        each_is_a_problem(Targets::prepare(&servers).await).await;
    }
}
