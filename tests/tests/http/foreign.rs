//! Each route of the api's document, asked by who owns nothing of it: a foreign id is answered as one that does not exist,
//! and no answer names another merchant's users or orders. An unknown claim is answered by its age, and so is a foreign
//! one: young, and old enough to be given up, at the first question and at the second.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::TimeDelta;
use coupon::{ClaimId, CouponId, FindingKind, MerchantId, TemplateId, UserId};
use mysql_store::verify;
use pipeline_tests::World;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};

use crate::http::full::openapi::document;
use crate::operators::merchants::{made, merchant};
use crate::platform::findings::found;

/// Ids of a kind that no answer of the test has by chance.
const OWNER: UserId = UserId(7_654_321_987_001);
const GRANTED: UserId = UserId(7_654_321_987_002);
const ORDER: &str = "order-of-the-owner";
const REQUEST: &str = "key-of-the-owner";

/// A user who has nothing.
const STRANGER: UserId = UserId(5);

/// How far ahead of the clock the id of the young claim is: it stays young for the whole test.
const YOUNG_FOR: TimeDelta = TimeDelta::minutes(10);

/// Age of the old claim: longer than a claim may be on its way.
const OLD_FOR: TimeDelta = TimeDelta::minutes(1);

/// How far behind an id there is none: less than the ids of a millisecond, which a process counts from 0.
const UNUSED: i64 = 1_000;

/// Fewest operations of the document that name something by its id, and those that name a claim.
const OPERATIONS_MIN: usize = 47;
const OF_CLAIMS_MIN: usize = 5;

const HOUR: TimeDelta = TimeDelta::hours(1);

/// What the owner has.
struct Owned {
    template: TemplateId,
    coupon: CouponId,
    /// A young claim and an old one. Both have landed.
    claims: [ClaimId; 2],
    job: i64,
    key: i64,
    finding: i64,
}

struct Operation {
    method: Method,
    path: String,
    /// Whether only shoppers call it.
    is_of_shoppers: bool,
    /// Whether shoppers and operators call it.
    is_of_both: bool,
}

impl Operation {
    fn is_of_claims(&self) -> bool {
        self.path.contains("/claims/{") || self.path.contains("/claim-states/{")
    }
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
    for operation in operations.iter().filter(|operation| !operation.is_of_claims()) {
        let [foreign, unknown] =
            [false, true].map(|unknown| filled(&operation.path, &owned, unknown));
        if operation.is_of_shoppers {
            let foreign = of_shopper(&world, operation, &foreign).await;
            let unknown = of_shopper(&world, operation, &unknown).await;
            wrong.extend(difference(operation, &foreign, &unknown));
            continue;
        }
        for (who, api) in
            [("a stranger", &stranger), ("the platform", &platform), ("on call", &emergency)]
        {
            let answer = ask(api, operation, &foreign).await;
            wrong.extend(named(who, operation, &foreign, &answer));
            if who == "a stranger" {
                let unknown = ask(api, operation, &unknown).await;
                wrong.extend(difference(operation, &answer, &unknown));
            }
        }
    }
    let of_claims: Vec<_> =
        operations.iter().filter(|operation| operation.is_of_claims()).collect();
    assert!(of_claims.len() >= OF_CLAIMS_MIN, "{} operations", of_claims.len());
    let others =
        world.api().publish_new(&NewTemplate::simple("Ours", 9, world.clock.now(), HOUR)).await;
    let templates = [owned.template, others.unwrap().id];
    for operation in of_claims {
        wrong.extend(claims_differ(&world, operation, &owned, templates).await);
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
    let new = NewTemplate::simple("Theirs", 10, world.clock.now(), HOUR);
    let new = NewTemplate { per_user_limit: 5, max_per_claim: 2, ..new };
    let template = owner.publish_new(&new).await.unwrap().id;
    let shopper = world.api().shopper(OWNER).unwrap();
    let claimed = shopper.claim(template, Some(REQUEST), 2).await.unwrap();
    let claimed: Claimed = claimed.json().unwrap();
    let coupon = claimed.coupons[0].id;
    let older: Claimed = shopper.claim(template, Some("older"), 1).await.unwrap().json().unwrap();
    let claims =
        [moved(world, claimed.id, YOUNG_FOR).await, moved(world, older.id, -OLD_FOR).await];
    let order = json!({
        "order_ref": ORDER, "amount": 5_000, "currency": "EUR", "coupons": [coupon.to_string()],
    });
    made(owner, "/v1/redemptions", &order).await;
    let grants = json!({ "user_ids": [GRANTED.to_string()], "reason": "a gift" });
    let request = owner.operator(Method::POST, &format!("/v1/templates/{template}/grants"));
    let job = owner.send(request.header("idempotency-key", "job").json(&grants)).await.unwrap();
    let job: Value = job.json().unwrap();
    let key = made(owner, "/v1/api-keys", &json!({ "name": "second", "scopes": ["read"] })).await;
    let number = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let merchant = MerchantId(number(&key["merchant_id"]));
    let finding = found(world, merchant, FindingKind::NumberLeaked).await.id.0;
    Owned { template, coupon, claims, job: number(&job["id"]), key: number(&key["id"]), finding }
}

/// Gives a landed claim an id of another age.
async fn moved(world: &World, id: ClaimId, by: TimeDelta) -> ClaimId {
    let new = ClaimId(id.0 + (by.num_milliseconds() << 22));
    let mut connection = world.mysql().await;
    for (table, set, column) in
        [("user_coupon", "version = version + 1, claim_id", "claim_id"), ("claim", "id", "id")]
    {
        let statement = format!("update {table} set {set} = {new} where {column} = {id}");
        assert!(verify::execute(&mut connection, &statement).await.unwrap() > 0, "{table}");
    }
    new
}

/// Returns how an operation answers differently about a foreign claim and about an unknown id of its age.
async fn claims_differ(
    world: &World,
    operation: &Operation,
    owned: &Owned,
    templates: [TemplateId; 2],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for claim in owned.claims {
        for query in queries(templates) {
            let path = |id: i64| operation.path.replace("{id}", &id.to_string()) + &query;
            let [foreign, unknown] = [path(claim.0), path(claim.0 + UNUSED)];
            let mut compare = |question: &str, answers: [Answer; 2]| {
                wrong.extend(named(question, operation, &foreign, &answers[0]));
                let told = [shape(&answers[0], claim.0), shape(&answers[1], claim.0 + UNUSED)];
                if told[0] != told[1] {
                    let method = &operation.method;
                    wrong.push(format!("{method} {foreign}, {question} question: {told:#?}"));
                }
            };
            for question in ["first", "second"] {
                if operation.is_of_shoppers || operation.is_of_both {
                    let answers =
                        [&foreign, &unknown].map(|path| of_shopper(world, operation, path));
                    let [foreign, unknown] = answers;
                    compare(question, [foreign.await, unknown.await]);
                }
                if !operation.is_of_shoppers {
                    // The platform's own key, which has no limit.
                    let answers =
                        [&foreign, &unknown].map(|path| ask(world.api(), operation, path));
                    let [foreign, unknown] = answers;
                    compare(question, [foreign.await, unknown.await]);
                }
            }
        }
    }
    wrong
}

/// Returns status and body of an answer, without the id that was asked for, the request's id and the time of reading.
fn shape(answer: &Answer, id: i64) -> (u16, Value) {
    let masked = answer.body.replace(&id.to_string(), "ID");
    let mut body: Value = serde_json::from_str(&masked).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        for field in ["request_id", "read_at"] {
            fields.remove(field);
        }
    }
    // How long a hop is waited for depends on the moment.
    for hop in body["hops"].as_array_mut().into_iter().flatten() {
        hop["took_ms"] = Value::Null;
        hop["late"] = Value::Null;
    }
    (answer.status, body)
}

/// Returns the queries of a claim: without its template, and with one.
fn queries(templates: [TemplateId; 2]) -> Vec<String> {
    let named = templates.map(|template| format!("?template={template}"));
    std::iter::once(String::new()).chain(named).collect()
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
                let is_of_both = !is_of_shoppers && security.contains("token");
                let path = path.clone();
                operations.push(Operation { method, path, is_of_shoppers, is_of_both });
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
            "jobs" => (owned.job + beside).to_string(),
            "api-keys" => (owned.key + beside).to_string(),
            "findings" => (owned.finding + beside).to_string(),
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
    let body = match path.split('?').next().unwrap().rsplit('/').next() {
        Some("confirm") => json!({ "payment_ref": "payment-of-a-stranger" }),
        Some("cancel" | "accept") => json!({ "reason": "because" }),
        _ => json!({ "reason": "because", "order_ref": "order-of-a-stranger" }),
    };
    let request = request.header("idempotency-key", format!("foreign{}", path.len()));
    request.header("if-match", "*").json(&body)
}

/// Asks as a user who has nothing.
async fn of_shopper(world: &World, operation: &Operation, path: &str) -> Answer {
    // Each question by another one: the lookups of one user are limited.
    static ASKED: AtomicI64 = AtomicI64::new(STRANGER.0);
    let user = UserId(ASKED.fetch_add(1, Ordering::Relaxed));
    let shopper = world.api().shopper(user).unwrap();
    let request = shopper.request(operation.method.clone(), path);
    shopper.send(complete(request, path)).await.unwrap()
}

async fn ask(api: &Api, operation: &Operation, path: &str) -> Answer {
    let request = api.operator(operation.method.clone(), path);
    let request = if operation.method == Method::GET { request } else { complete(request, path) };
    api.send(request).await.unwrap()
}

/// Returns how an answer about a foreign id differs from one about an unknown id.
fn difference(operation: &Operation, foreign: &Answer, unknown: &Answer) -> Option<String> {
    let Operation { method, path, .. } = operation;
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
