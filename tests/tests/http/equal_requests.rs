//! Each request that changes something, sent many times at once by one client to two apis: it takes effect once, and all
//! get one answer.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use coupon::{FindingKind, UserId};
use devstack::PlatformOptions;
use futures::future::join_all;
use mysql_store::merchant::PLATFORM;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, NewTemplate};

use crate::{
    http::full::openapi::document,
    operators::{
        idempotency::{content, post, recorded},
        merchants::made,
    },
    platform::findings::found,
};

/// Equal requests at once.
const AT_ONCE: usize = 10;

/// The user who asks, where a user asks.
const ANNA: UserId = UserId(1);

/// The idempotency key of every request.
const KEY: &str = "equal";

/// What changes nothing. A session is a cookie, which the platform does not keep.
const LOOKS: [&str; 4] = [
    "POST /v1/coupons/{id}/validate",
    "POST /v1/templates/preview",
    "POST /v1/console/session",
    "DELETE /v1/console/session",
];

/// How equal requests are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// With the same bytes. This many lines of the record are written by all of them.
    Same { lines: usize },
    /// Each has the status of the first; the body says what is so now.
    AsItIsNow { lines: usize },
    /// With the same bytes, or 409 while the first is worked on, as claims are.
    SameOrInProgress,
    /// Each is refused with this code, and nothing is recorded.
    Refused(&'static str),
}

/// A request of the document.
struct Case {
    operation: &'static str,
    path: String,
    body: Value,
    is_of_user: bool,
    answers: Answers,
}

/// Makes a case, of an operator.
fn case(operation: &'static str, path: String, body: Value, answers: Answers) -> Case {
    Case { operation, path, body, is_of_user: false, answers }
}

/// Makes a case whose answers are the same, with one line.
fn once(operation: &'static str, path: String, body: Value) -> Case {
    case(operation, path, body, Answers::Same { lines: 1 })
}

fn method(operation: &str) -> Method {
    operation.split_once(' ').unwrap().0.parse().unwrap()
}

#[tokio::test]
async fn equal_requests_at_once_take_effect_once_and_get_one_answer_on_every_route() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("equal requests", two).await;
    // First, because what was refused does not take its key.
    let mut cases = refused(&world).await;
    cases.extend(of_templates(&world).await);
    cases.extend(of_coupons(&world).await);
    cases.extend(of_claims(&world).await);
    cases.extend(others(&world).await);
    let mut wrong = Vec::new();
    for case in &cases {
        let before = recorded(&world).await;
        let answers = at_once(&world, case).await;
        let lines = recorded(&world).await - before;
        wrong.extend(judge(case, &answers, lines));
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    assert_eq!(missing(&document(&world).await, &cases), BTreeSet::new());
    world.assert_sound(None).await;
    world.end().await;
}

/// Sends a case's request to both apis.
async fn at_once(world: &World, case: &Case) -> Vec<Answer> {
    let send = async |number: usize| {
        let api = &world.apis[number % 2];
        let request = if case.is_of_user {
            api.shopper(ANNA).unwrap().request(method(case.operation), &case.path)
        } else {
            api.operator(method(case.operation), &case.path)
        };
        let request = request.header("idempotency-key", KEY);
        let request = match (case.operation, &case.body) {
            ("PATCH /v1/templates/{id}" | "DELETE /v1/templates/{id}", _) => {
                request.header("if-match", "\"1\"")
            }
            _ => request,
        };
        let request = if case.body.is_null() { request } else { request.json(&case.body) };
        api.send(request).await.unwrap()
    };
    join_all((0..AT_ONCE).map(send)).await
}

/// Returns what is wrong with the answers to equal requests, and with the lines that they wrote.
fn judge(case: &Case, answers: &[Answer], lines: usize) -> Option<String> {
    let told = |answer: &Answer| (answer.status, answer.code());
    let first = &answers[0];
    let is_right = match case.answers {
        Answers::Same { lines: meant } => {
            answers.iter().all(|answer| content(answer) == content(first))
                && (200..300).contains(&first.status)
                && lines == meant
        }
        Answers::SameOrInProgress => {
            let waits = |answer: &Answer| told(answer) == (409, Some("REQUEST_IN_PROGRESS".into()));
            let made: Vec<_> = answers.iter().filter(|answer| !waits(answer)).collect();
            made.iter().all(|answer| answer.status == 201 && content(answer) == content(made[0]))
                && made.iter().filter(|answer| !answer.replayed).count() == 1
        }
        Answers::AsItIsNow { lines: meant } => {
            answers.iter().all(|answer| (200..300).contains(&answer.status)) && lines == meant
        }
        Answers::Refused(code) => {
            answers.iter().all(|answer| told(answer) == told(first))
                && first.code().as_deref() == Some(code)
                && lines == 0
        }
    };
    let told: Vec<_> = answers.iter().map(|answer| (answer.status, &answer.body)).collect();
    (!is_right).then(|| format!("{} {}: {lines} lines, {told:#?}", case.operation, case.path))
}

/// Returns the changing operations of the document that no case sends.
fn missing(document: &Value, cases: &[Case]) -> BTreeSet<String> {
    let mut missing = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|method| *method != "get") {
            missing.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    for operation in cases.iter().map(|case| case.operation).chain(LOOKS) {
        missing.remove(operation);
    }
    missing
}

fn simple(world: &World) -> NewTemplate {
    NewTemplate::simple("A sale", 100, world.clock.now(), TimeDelta::hours(1))
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

async fn draft(world: &World) -> String {
    id(&made(world.api(), "/v1/templates", &json!(simple(world))).await)
}

async fn published(world: &World, new: NewTemplate) -> String {
    world.api().publish_new(&new).await.unwrap().id.to_string()
}

async fn of_templates(world: &World) -> Vec<Case> {
    const STATE: &str = "POST /v1/templates/{id}/{verb}";
    let template = published(world, simple(world)).await;
    let path = |rest: &str| format!("/v1/templates/{template}{rest}");
    let users: Vec<String> = (100..130).map(|user: i64| user.to_string()).collect();
    let grants = json!({ "user_ids": users, "reason": "a gift", "from_stock": true });
    let movement = |delta: i64| json!({ "delta": delta, "reason": "x", "confirm": "A sale" });
    vec![
        once("POST /v1/templates", "/v1/templates".to_owned(), json!(simple(world))),
        once("POST /v1/templates/{id}/clone", path("/clone"), json!({ "name": "Another" })),
        once(STATE, format!("/v1/templates/{}/publish", draft(world).await), Value::Null),
        once(STATE, path("/pause"), Value::Null),
        once(STATE, path("/resume"), Value::Null),
        once("POST /v1/templates/{id}/stock-movements", path("/stock-movements"), movement(5)),
        once("POST /v1/templates/{id}/gate-rebuild", path("/gate-rebuild"), Value::Null),
        once("POST /v1/templates/{id}/grants", path("/grants"), grants),
        once(
            "PATCH /v1/templates/{id}",
            format!("/v1/templates/{}", draft(world).await),
            json!({ "name": "Renamed" }),
        ),
        once(
            "DELETE /v1/templates/{id}",
            format!("/v1/templates/{}", draft(world).await),
            Value::Null,
        ),
    ]
}

/// Claims a coupon for [`ANNA`] from a new template, and returns the claim.
async fn claimed(world: &World, new: NewTemplate) -> Claimed {
    let template = world.api().publish_new(&new).await.unwrap().id;
    let shopper = world.api().shopper(ANNA).unwrap();
    shopper.claim(template, Some("first"), 1).await.unwrap().json().unwrap()
}

async fn of_coupons(world: &World) -> Vec<Case> {
    let coupon = async || claimed(world, simple(world)).await.coupons[0].id.to_string();
    let path = async |verb: &str| format!("/v1/coupons/{}/{verb}", coupon().await);
    let order = |name: &str| json!({ "user_id": "1", "order_ref": name });
    let reason = json!({ "reason": "x" });
    let late = world.clock.now() + TimeDelta::days(30);
    let redeemed = json!({
        "order_ref": "together", "amount": 5_000, "currency": "EUR", "coupons": [coupon().await],
    });
    let [given_back, rolled_back] = [path("unuse").await, coupon().await];
    let used = given_back.replace("unuse", "use");
    assert_eq!(post(world.api(), &used, "", &order("back")).await.status, 200);
    let whole = json!({
        "order_ref": "whole", "amount": 5_000, "currency": "EUR", "coupons": [rolled_back],
    });
    made(world.api(), "/v1/redemptions", &whole).await;
    vec![
        once("POST /v1/coupons/{id}/use", path("use").await, order("alone")),
        once("POST /v1/coupons/{id}/unuse", given_back, order("back")),
        once("POST /v1/redemptions", "/v1/redemptions".to_owned(), redeemed),
        // One for the coupon, one for the order.
        case(
            "POST /v1/redemptions/{order_ref}/rollback",
            "/v1/redemptions/whole/rollback".to_owned(),
            reason.clone(),
            Answers::Same { lines: 2 },
        ),
        // Each locks it anew, from now on.
        case(
            "POST /v1/coupons/{id}/lock",
            path("lock").await,
            json!({ "order_ref": "kept", "for_ms": 60_000 }),
            Answers::AsItIsNow { lines: AT_ONCE },
        ),
        once("POST /v1/coupons/{id}/revoke", path("revoke").await, reason.clone()),
        once("POST /v1/coupons/{id}/replace", path("replace").await, reason.clone()),
        once(
            "POST /v1/coupons/{id}/extend",
            path("extend").await,
            json!({ "valid_until": late, "reason": "x" }),
        ),
    ]
}

async fn of_claims(world: &World) -> Vec<Case> {
    let none = Answers::Same { lines: 0 };
    let of_user = |case: Case| Case { is_of_user: true, ..case };
    let held = simple(world).held_for(TimeDelta::minutes(20));
    let confirmed = claimed(world, held.clone()).await.id;
    let cancelled = claimed(world, held.clone()).await.id;
    let given_up = claimed(world, held.clone()).await.id;
    let paid = claimed(world, held).await.id;
    for (payment_ref, status) in [("in-time", 200), ("too-late", 409)] {
        let paid = world.api().confirm(paid, payment_ref, None).await.unwrap();
        assert_eq!(paid.status, status, "{}", paid.body);
    }
    let refunded = json!({ "claim_id": paid, "payment_ref": "too-late", "reason": "x" });
    let at_till = NewTemplate { self_redeem: true, ..simple(world) };
    let used = claimed(world, at_till.clone()).await.coupons[0].id;
    let unused = claimed(world, at_till).await.coupons[0].id;
    let shopper = world.api().shopper(ANNA).unwrap();
    assert_eq!(shopper.use_coupon(unused, "till").await.unwrap().status, 200);
    let template = published(world, simple(world)).await;
    let order = json!({ "order_ref": "till" });
    let reason = json!({ "reason": "x" });
    let claims = "POST /v1/templates/{id}/claims";
    let cancel = "POST /v1/claims/{id}/cancel";
    vec![
        of_user(case(
            claims,
            format!("/v1/templates/{template}/claims"),
            json!({ "quantity": 1 }),
            Answers::SameOrInProgress,
        )),
        of_user(case(
            "POST /v1/me/coupons/{id}/use",
            format!("/v1/me/coupons/{used}/use"),
            order.clone(),
            none,
        )),
        of_user(case(
            "POST /v1/me/coupons/{id}/unuse",
            format!("/v1/me/coupons/{unused}/unuse"),
            order,
            Answers::Refused("SELF_REDEEM_FORBIDDEN"),
        )),
        case(
            "POST /v1/claims/{id}/confirm",
            format!("/v1/claims/{confirmed}/confirm"),
            json!({ "payment_ref": "paid" }),
            none,
        ),
        once(cancel, format!("/v1/claims/{cancelled}/cancel"), reason.clone()),
        of_user(case(cancel, format!("/v1/claims/{given_up}/cancel"), reason, none)),
        once("POST /v1/late-payments/refunded", "/v1/late-payments/refunded".to_owned(), refunded),
    ]
}

async fn others(world: &World) -> Vec<Case> {
    let api = world.api();
    let template = published(world, simple(world)).await;
    let key =
        async || id(&made(api, "/v1/api-keys", &json!({ "name": "k", "scopes": ["read"] })).await);
    let letters = json!({ "from_offset": 3, "to_offset": 7 });
    let replay = id(&made(api, "/v1/dead-letter-replays", &letters).await);
    let grants = json!({ "user_ids": ["200"], "reason": "a gift", "from_stock": true });
    let job = post(api, &format!("/v1/templates/{template}/grants"), "job", &grants).await;
    let job = id(&job.json().unwrap());
    let state = async || {
        let job = api.send(api.operator(Method::GET, &format!("/v1/jobs/{job}"))).await.unwrap();
        job.json::<Value>().unwrap()["state"].as_str().unwrap().to_owned()
    };
    until(state, |state| state == "finished").await;
    let finding = found(world, PLATFORM, FindingKind::Account).await.id;
    let reason = json!({ "reason": "x" });
    let new_key = json!({ "name": "x", "scopes": ["read"] });
    let shop = json!({ "name": "A shop" });
    let ended = json!({ "replayed": 1, "passed_over": 3 });
    vec![
        once("POST /v1/merchants", "/v1/merchants".to_owned(), shop),
        once("POST /v1/api-keys", "/v1/api-keys".to_owned(), new_key),
        once(
            "POST /v1/api-keys/{id}/rotate",
            format!("/v1/api-keys/{}/rotate", key().await),
            json!({}),
        ),
        once("DELETE /v1/api-keys/{id}", format!("/v1/api-keys/{}", key().await), Value::Null),
        once("POST /v1/dead-letter-replays", "/v1/dead-letter-replays".to_owned(), letters),
        // Its line was written when it began.
        case(
            "POST /v1/dead-letter-replays/{id}/end",
            format!("/v1/dead-letter-replays/{replay}/end"),
            ended,
            Answers::Same { lines: 0 },
        ),
        once(
            "POST /v1/users/{id}/view-rebuild",
            "/v1/users/1/view-rebuild".to_owned(),
            Value::Null,
        ),
        case(
            "POST /v1/templates/{id}/users/{user}/ban/lift",
            format!("/v1/templates/{template}/users/1/ban/lift"),
            reason.clone(),
            Answers::Same { lines: 0 },
        ),
        once(
            "POST /v1/findings/{id}/accept",
            format!("/v1/findings/{finding}/accept"),
            reason.clone(),
        ),
        // It has ended by itself, and stays as it is.
        case(
            "POST /v1/jobs/{id}/cancel",
            format!("/v1/jobs/{job}/cancel"),
            reason,
            Answers::Same { lines: 0 },
        ),
    ]
}

/// Requests that are refused in their transactions, so that those that wait for them are next.
async fn refused(world: &World) -> Vec<Case> {
    let api = world.api();
    let template = published(world, simple(world)).await;
    let draft = draft(world).await;
    let key = id(&made(api, "/v1/api-keys", &json!({ "name": "k", "scopes": ["read"] })).await);
    let revoked = api.send(api.operator(Method::DELETE, &format!("/v1/api-keys/{key}"))).await;
    assert_eq!(revoked.unwrap().status, 204);
    let coupon = claimed(world, simple(world)).await.coupons[0].id;
    let used = json!({ "user_id": "1", "order_ref": "other" });
    assert_eq!(post(api, &format!("/v1/coupons/{coupon}/use"), "", &used).await.status, 200);
    let of_coupon = |verb: &str| format!("/v1/coupons/{coupon}/{verb}");
    let reason = json!({ "reason": "x" });
    let past = world.clock.now() - TimeDelta::days(400);
    let late = json!({ "name": "x", "scopes": ["read"], "expires_at": past });
    let refused = |operation, path, body, code| case(operation, path, body, Answers::Refused(code));
    let of_template = |verb: &str| format!("/v1/templates/{template}/{verb}");
    let cut = json!({ "delta": -500, "reason": "x", "confirm": "A sale" });
    vec![
        refused(
            "POST /v1/api-keys/{id}/rotate",
            format!("/v1/api-keys/{key}/rotate"),
            json!({}),
            "KEY_NOT_LIVE",
        ),
        refused("POST /v1/api-keys", "/v1/api-keys".to_owned(), late, "INVALID_KEY"),
        refused("POST /v1/coupons/{id}/revoke", of_coupon("revoke"), reason.clone(), "COUPON_USED"),
        refused("POST /v1/coupons/{id}/replace", of_coupon("replace"), reason, "COUPON_USED"),
        refused(
            "POST /v1/templates/{id}/{verb}",
            format!("/v1/templates/{draft}/pause"),
            Value::Null,
            "INVALID_TRANSITION",
        ),
        refused(
            "POST /v1/templates/{id}/stock-movements",
            of_template("stock-movements"),
            cut,
            "INSUFFICIENT_STOCK",
        ),
        refused(
            "POST /v1/templates/{id}/drain-end",
            of_template("drain-end"),
            json!({ "confirm": "A sale" }),
            "NO_DRAIN",
        ),
    ]
}
