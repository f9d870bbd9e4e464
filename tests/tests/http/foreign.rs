//! Each route of the api's document, asked by who owns nothing of it: a foreign id is answered as one that does not exist,
//! and no answer names another merchant's users or orders. A foreign claim is not found either, but an unknown id may be
//! one of a claim that will land, so the two answers differ.

use coupon::{ClaimId, CouponId, TemplateId, UserId};
use pipeline_tests::World;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};

use crate::http::full::openapi::document;
use crate::operators::merchants::{made, merchant, published};

/// Ids of a kind that no answer of the test has by chance.
const OWNER: UserId = UserId(7_654_321_987_001);
const GRANTED: UserId = UserId(7_654_321_987_002);
const ORDER: &str = "order-of-the-owner";
const REQUEST: &str = "key-of-the-owner";

/// A user who has nothing.
const STRANGER: UserId = UserId(5);

/// How far behind an id there is none: less than the ids of a millisecond, which a process counts from 0.
const UNUSED: i64 = 1_000;

/// Fewest operations of the document that name something by its id.
const OPERATIONS_MIN: usize = 47;

/// What the owner has.
struct Owned {
    template: TemplateId,
    coupon: CouponId,
    claim: ClaimId,
    job: i64,
    key: i64,
}

struct Operation {
    method: Method,
    path: String,
    is_of_shoppers: bool,
}

#[tokio::test]
async fn foreign_ids_are_answered_like_unknown_ones_on_every_route_and_no_answer_names_their_users()
{
    let world = World::start("foreign").await;
    let owner = with_every_scope(&merchant(&world, "Owner").await).await;
    let stranger = with_every_scope(&merchant(&world, "Stranger").await).await;
    let owned = prepare(&world, &owner).await;
    let platform = with_every_scope(world.api()).await;
    let emergency = json!({ "name": "on call", "scopes": ["emergency"] });
    let emergency = made(world.api(), "/v1/api-keys", &emergency).await;
    let emergency = world.api().with_operator_key(emergency["key"].as_str().unwrap());
    let document = document(&world).await;
    let operations = operations(&document);
    assert!(operations.len() >= OPERATIONS_MIN, "{} operations", operations.len());
    let mut wrong = Vec::new();
    let others = published(&world, &stranger).await;
    let askers = [("a stranger", &stranger), ("the platform", &platform), ("on call", &emergency)];
    for operation in &operations {
        for query in queries(&operation.path, [owned.template, others]) {
            let foreign = filled(&operation.path, &owned, false) + &query;
            let unknown = filled(&operation.path, &owned, true) + &query;
            if operation.is_of_shoppers {
                let shopper = world.api().shopper(STRANGER).unwrap();
                let ask = async |path: &str| {
                    let request = shopper.request(operation.method.clone(), path);
                    shopper.send(complete(request, path)).await.unwrap()
                };
                wrong.extend(difference(operation, &ask(&foreign).await, &ask(&unknown).await));
                continue;
            }
            for (who, api) in askers {
                let answer = ask(api, operation, &foreign).await;
                wrong.extend(named(who, operation, &foreign, &answer));
                if who == "a stranger" {
                    let unknown = ask(api, operation, &unknown).await;
                    wrong.extend(difference(operation, &answer, &unknown));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    world.end().await;
}

/// Returns the operator's merchant with a key of every scope.
async fn with_every_scope(api: &Api) -> Api {
    let key = json!({ "name": "all", "scopes": ["admin", "redeem"] });
    let key = made(api, "/v1/api-keys", &key).await;
    api.with_operator_key(key["key"].as_str().unwrap())
}

/// Sells a coupon, redeems it, and grants another one.
async fn prepare(world: &World, owner: &Api) -> Owned {
    let new = NewTemplate::simple("Theirs", 10, world.clock.now(), chrono::TimeDelta::hours(1));
    let new = NewTemplate { per_user_limit: 5, max_per_claim: 2, ..new };
    let template = owner.publish_new(&new).await.unwrap().id;
    let shopper = world.api().shopper(OWNER).unwrap();
    let claimed = shopper.claim(template, Some(REQUEST), 2).await.unwrap();
    let claimed: Claimed = claimed.json().unwrap();
    let coupon = claimed.coupons[0].id;
    let order = json!({
        "order_ref": ORDER, "amount": 5_000, "currency": "EUR", "coupons": [coupon.to_string()],
    });
    made(owner, "/v1/redemptions", &order).await;
    let grants = json!({ "user_ids": [GRANTED.to_string()], "reason": "a gift" });
    let request = owner.operator(Method::POST, &format!("/v1/templates/{template}/grants"));
    let job = owner.send(request.header("idempotency-key", "job").json(&grants)).await.unwrap();
    let job: Value = job.json().unwrap();
    let key = made(owner, "/v1/api-keys", &json!({ "name": "second", "scopes": ["read"] })).await;
    let id = |value: &Value| value["id"].as_str().unwrap().parse().unwrap();
    Owned { template, coupon, claim: claimed.id, job: id(&job), key: id(&key) }
}

fn is_of_claims(path: &str) -> bool {
    path.contains("/claims/{") || path.contains("/claim-states/{")
}

/// Returns the queries of a path: a claim is looked for at a template.
fn queries(path: &str, templates: [TemplateId; 2]) -> Vec<String> {
    let mut queries = vec![String::new()];
    if is_of_claims(path) {
        queries.extend(templates.map(|template| format!("?template={template}")));
    }
    queries
}

/// Returns the operations whose path has a parameter, those that change something last. Templates are shown to every
/// shopper.
fn operations(document: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let security = operation["security"].to_string();
            let is_of_shoppers = !security.contains("operator_key");
            let is_shown = is_of_shoppers && path.contains("/templates/") && method == "get";
            if path.contains('{') && !is_shown {
                let method = method.to_uppercase().parse().unwrap();
                operations.push(Operation { method, path: path.clone(), is_of_shoppers });
            }
        }
    }
    operations.sort_by_key(|operation| operation.method != Method::GET);
    operations
}

/// Replaces the parameters of a path by ids of the owner or, if they are to be unknown, by ids that were not given away in
/// the same milliseconds.
fn filled(path: &str, owned: &Owned, unknown: bool) -> String {
    let beside = if unknown { UNUSED } else { 0 };
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
        let part = match parts.last().map_or("", String::as_str) {
            _ if !part.starts_with('{') => part.to_owned(),
            "templates" => (owned.template.0 + beside).to_string(),
            "coupons" => (owned.coupon.0 + beside).to_string(),
            "claims" | "claim-states" => (owned.claim.0 + beside).to_string(),
            "jobs" => (owned.job + beside).to_string(),
            "api-keys" => (owned.key + beside).to_string(),
            "redemptions" if unknown => "order-of-nobody".to_owned(),
            "redemptions" => ORDER.to_owned(),
            _ => (OWNER.0 + beside).to_string(),
        };
        parts.push(part);
    }
    parts.join("/")
}

/// Adds what most routes demand, so that the id decides.
fn complete(request: RequestBuilder, path: &str) -> RequestBuilder {
    let body = json!({ "reason": "because", "order_ref": "order-of-a-stranger" });
    let request = request.header("idempotency-key", format!("foreign{}", path.len()));
    request.header("if-match", "*").json(&body)
}

async fn ask(api: &Api, operation: &Operation, path: &str) -> Answer {
    let request = api.operator(operation.method.clone(), path);
    let request = if operation.method == Method::GET { request } else { complete(request, path) };
    api.send(request).await.unwrap()
}

/// Returns how an answer about a foreign id, of anything but a claim, differs from one about an unknown id.
fn difference(operation: &Operation, foreign: &Answer, unknown: &Answer) -> Option<String> {
    let Operation { method, path, .. } = operation;
    if is_of_claims(path) {
        return None;
    }
    let told = |answer: &Answer| (answer.status, answer.code());
    let is_same = told(foreign) == told(unknown);
    (!is_same).then(|| format!("{method} {path}: {} and {}", foreign.body, unknown.body))
}

/// Returns which of the owner's users and orders an answer names. What was asked for may be repeated.
fn named(who: &str, operation: &Operation, asked: &str, answer: &Answer) -> Option<String> {
    let Operation { method, path, .. } = operation;
    let secrets = [&OWNER.to_string(), &GRANTED.to_string(), ORDER, REQUEST];
    let mut named = secrets.into_iter().filter(|secret| !asked.contains(*secret));
    let named = named.find(|secret| answer.body.contains(*secret))?;
    Some(format!("{who} reads of {named} by {method} {path}: {}", answer.body))
}
