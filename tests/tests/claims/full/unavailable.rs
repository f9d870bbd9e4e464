//! Answers with 503 while a server is unreachable or a claim cannot be decided: they have the code in
//! `docs/errors.md` and a Retry-After, nothing is half done, and the same request succeeds later.

use std::fs;

use chrono::TimeDelta;
use coupon::UserId;
use devstack::{Flavor, OwnDatabase, OwnRedis, TestServers};
use futures::future::join_all;
use mysql_store::fence::{self, Fence};
use pipeline_tests::{World, until};
use redis_gate::RequestState;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, NewTemplate};

use crate::claims::full::epochs::flush;

/// Idempotency key of every claim.
const KEY: &str = "the-key";

/// Users whose lists must come from MySQL concurrently: three times as many as are read at once.
const READERS: i64 = 24;

/// Returns the code of an answer that asks the client to retry.
fn code(answer: &Answer) -> String {
    let problem: Value = answer.json().unwrap();
    assert_eq!((answer.status, &problem["retryable"]), (503, &Value::from(true)), "{answer:?}");
    assert!(matches!(answer.retry_after, Some(1..=3)), "{answer:?}");
    answer.code().unwrap()
}

#[tokio::test]
async fn while_mysql_is_silent_what_needs_it_says_so_and_does_nothing() {
    let mut database = OwnDatabase::start("mysql-silent", Flavor::Mariadb, &[]).await.unwrap();
    let gate = OwnRedis::gate("mysql-silent-gate").await.unwrap();
    let shared = TestServers::shared().with_database(&database.url()).with_gate(&gate.url());
    let world = World::start_on(&shared, "mysql silent", |options| options).await;
    let api = world.api();
    let template = world.template(10, |new| new).await;
    let [anna, bert] = [1, 2].map(|user| api.shopper(UserId(user)).unwrap());
    let claimed: Claimed = anna.claim(template, Some(KEY), 1).await.unwrap().json().unwrap();
    let coupon = claimed.coupons[0].id;
    let templates = async || api.send(api.operator(Method::GET, "/v1/templates")).await.unwrap();
    let before = templates().await;

    database.server.pause().unwrap();
    let draft = NewTemplate::simple("A draft", 5, world.clock.now(), TimeDelta::hours(1));
    let draft = api.operator(Method::POST, "/v1/templates").json(&draft);
    let keyless = draft.try_clone().unwrap();
    let draft = draft.header("Idempotency-Key", "a-draft");
    let one = anna.request(Method::GET, &format!("/v1/me/coupons/{coupon}"));
    let lists = (100..100 + READERS).map(async |user| {
        let shopper = api.shopper(UserId(user)).unwrap();
        shopper.send(shopper.request(Method::GET, "/v1/me/coupons")).await.unwrap()
    });
    let (keyless, made, used, one, lists) = tokio::join!(
        api.send(keyless),
        api.send(draft),
        anna.use_coupon(coupon, "order"),
        api.send(one),
        join_all(lists)
    );
    for answer in [made, used, one] {
        assert_eq!(code(&answer.unwrap()), "STORE_UNAVAILABLE");
    }
    // Without a key, a retry could create it twice.
    let keyless = keyless.unwrap();
    assert_eq!((keyless.status, keyless.retry_after), (503, None), "{keyless:?}");
    let problem: Value = keyless.json().unwrap();
    assert_eq!(
        (&problem["code"], &problem["retryable"]),
        (&json!("STORE_UNAVAILABLE"), &json!(false))
    );
    // Lists that get a read slot fail with MySQL; the others are refused as overloaded.
    let codes: Vec<String> = lists.iter().map(code).collect();
    let of = |code: &str| codes.iter().filter(|answered| *answered == code).count();
    let silent = of("STORE_UNAVAILABLE");
    let shed = of("OVERLOADED");
    assert!(silent > 0 && shed > 0 && silent + shed == codes.len(), "{codes:?}");

    // A key that has an answer leads to the claim that has it, and not to an id that was never admitted.
    let again = anna.claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(code(&again), "CLAIM_PENDING");
    let poll = format!("/v1/claims/{}?template={template}", claimed.id);
    assert_eq!(again.json::<Value>().unwrap()["poll"], poll);

    // A gate that loses its data now cannot be reloaded; claims must not be answered "sold out".
    flush(&gate).await;
    let claim = async || bert.claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!(code(&claim().await), "GATE_LOADING");

    database.server.resume().unwrap();
    let bert = until(claim, |answer| !answer.is_passing()).await;
    assert_eq!((bert.status, bert.replayed), (201, false), "{bert:?}");
    let after = until(templates, |answer| answer.status == 200).await;
    assert_eq!(after.body, before.body, "a draft that was answered to nobody");
    let used = until(async || anna.coupon(coupon).await, Result::is_ok).await.unwrap();
    assert_eq!(used.status, "unused", "a use that was answered to nobody");
    assert_eq!(anna.use_coupon(coupon, "order").await.unwrap().status, 200);
    assert_eq!(world.count(template).await.all(), 2);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn while_the_view_is_away_it_is_not_rebuilt_and_mysql_shows_the_list() {
    let mut view = OwnRedis::view("view-away", &[]).await.unwrap();
    let servers = TestServers::shared().with_view(&view.url());
    let world = World::start_on(&servers, "view away", |options| options).await;
    let api = world.api();
    let template = world.template(10, |new| new).await;
    let anna = api.shopper(UserId(1)).unwrap();
    let claimed: Claimed = anna.claim(template, Some(KEY), 1).await.unwrap().json().unwrap();
    let rebuild = async || {
        let request = api.operator(Method::POST, "/v1/users/1/view-rebuild");
        api.send(request).await.unwrap()
    };
    for dies in [true, false] {
        if dies { view.server.kill() } else { view.server.pause() }.unwrap();
        assert_eq!(code(&rebuild().await), "VIEW_UNAVAILABLE");
        let shown = anna.all_coupons().await.unwrap();
        assert_eq!(shown[0].id, claimed.coupons[0].id, "MySQL answers");
        if dies {
            view.server.start().await.unwrap();
        } else {
            view.server.resume().unwrap();
        }
        let rebuilt = until(rebuild, |answer| !answer.is_passing()).await;
        assert_eq!(rebuilt.status, 200, "{rebuilt:?}");
        assert_eq!(anna.all_coupons().await.unwrap(), shown);
    }
    // The operator is recorded, whatever the outcome.
    let audit = api.operator(Method::GET, "/v1/audit?target=users/1&limit=100");
    let audit: Value = api.send(audit).await.unwrap().json().unwrap();
    let after: Vec<&Value> =
        audit["data"].as_array().unwrap().iter().map(|line| &line["after"]).collect();
    let done = json!({ "rebuilt": true });
    assert!(after.contains(&&Value::Null) && *after[0] == done, "{after:?}");
    // The verifier's own connection broke too, and reconnects.
    until(async || world.sources.view.users().await.is_ok(), |there| *there).await;
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_claim_that_was_fenced_under_way_is_given_up_and_its_key_claims_again() {
    let mut world = World::start("given up").await;
    let hold = world.platform.options.dir.join("hold");
    let process = &mut world.platform.apis[0];
    process.set_env("FAIL_POINTS", &format!("claims.after_gate=hold:{}", hold.display()));
    process.restart().await.unwrap();
    let template = world.template(10, |new| new).await;
    let anna = world.api().shopper(UserId(1)).unwrap();

    fs::write(&hold, "").unwrap();
    let shopper = anna.clone();
    let answer = tokio::spawn(async move { shopper.claim(template, Some(KEY), 1).await });
    let gate = &world.sources.gate;
    let epoch = gate.meta(template).await.unwrap().unwrap().epoch;
    let pending = async || {
        let entry = gate.entry(template, epoch, UserId(1)).await.unwrap().unwrap_or_default();
        let mut requests = entry.requests.into_iter();
        requests.find(|request| request.state == RequestState::Pending).map(|request| request.id)
    };
    let admission = until(pending, Option::is_some).await.unwrap();
    // Fences like a resolver of another process that considers this one dead.
    let mut connection = world.mysql().await;
    let fence =
        fence::place(&mut connection, template, UserId(1), admission, world.clock.now()).await;
    assert_eq!(fence.unwrap(), Fence::Stands);
    fs::remove_file(hold).unwrap();
    assert_eq!(code(&answer.await.unwrap().unwrap()), "CLAIM_GIVEN_UP");
    assert_eq!(world.count(template).await.all(), 0);
    assert_eq!(anna.poll(admission, template).await.unwrap().status, 404, "it did not land");

    let again = anna.claim(template, Some(KEY), 1).await.unwrap();
    assert_eq!((again.status, again.replayed), (201, false), "{again:?}");
    assert_eq!(world.count(template).await.all(), 1);
    drop(connection);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_call_of_a_gate_that_is_away_is_counted_and_the_same_claim_succeeds_later() {
    let mut gate = OwnRedis::gate("gate-failures").await.unwrap();
    let shared = TestServers::shared().with_gate(&gate.url());
    let world = World::start_on(&shared, "gate failures", |options| options).await;
    let template = world.template(10, |new| new).await;
    let [anna, bert] = [1, 2].map(|user| world.api().shopper(UserId(user)).unwrap());
    assert_eq!(anna.claim(template, Some(KEY), 1).await.unwrap().status, 201);
    let failed = async || {
        let mut calls = 0.0;
        for why in ["unknown", "unreachable", "refused", "unfit", "unreadable"] {
            let series = format!("coupon_gate_failures_total{{why=\"{why}\"}}");
            calls += world.platform.apis[0].metric(&series).await.unwrap_or_default();
        }
        calls
    };
    let before = failed().await;
    gate.server.kill().unwrap();
    let claim = async || bert.claim(template, Some(KEY), 1).await.unwrap();
    let is_away = |answer: &Answer| answer.code().as_deref() == Some("GATE_UNAVAILABLE");
    let refused = until(claim, is_away).await;
    assert_eq!(code(&refused), "GATE_UNAVAILABLE");
    assert!(failed().await > before);
    gate.server.start().await.unwrap();
    let again = async || bert.claim(template, Some(KEY), 1).await.unwrap();
    until(again, |answer| answer.status == 201).await;
    assert_eq!(world.count(template).await.all(), 2);
    world.assert_sound(None).await;
    world.end().await;
}
