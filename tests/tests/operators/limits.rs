//! Limits reached over HTTP: the keys of a merchant, the coupons of a template.

use coupon::UserId;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api};

/// Default limit of a merchant's keys (`docs/api.md`).
const KEYS: usize = 100;

/// Keys in a list (`GET /v1/api-keys`), and revoked ones of which it has no room for all beside one more.
const LISTED: usize = 1_000;
const REVOKED: u64 = 1_000;

async fn send(api: &Api, method: Method, path: &str, body: &Value) -> Answer {
    api.send(api.operator(method, path).json(body)).await.unwrap()
}

/// Creates a key of the operator's own merchant.
async fn new_key(api: &Api) -> Answer {
    let key = json!({ "name": "one of many", "scopes": ["read"] });
    send(api, Method::POST, "/v1/api-keys", &key).await
}

/// Returns the keys that are not revoked, newest first.
async fn live_keys(api: &Api) -> Vec<Value> {
    let answer = api.send(api.operator(Method::GET, "/v1/api-keys")).await.unwrap();
    let mut list: Value = answer.json().unwrap();
    let mut keys = list["items"].as_array_mut().unwrap().split_off(0);
    keys.retain(|key| key["revoked_at"].is_null());
    keys
}

/// Asserts a conflict that does not resolve itself, so the answer contains no Retry-After.
fn assert_conflict(answer: &Answer, code: &str) {
    assert_eq!((answer.status, answer.code().as_deref()), (409, Some(code)), "{answer:?}");
    assert_eq!(answer.retry_after, None);
    assert_eq!(answer.json::<Value>().unwrap()["retryable"], false);
}

#[tokio::test]
async fn a_merchant_has_so_many_keys_and_gets_another_when_one_is_revoked() {
    let world = World::start("many keys").await;
    let platform = world.api();
    let merchant = send(platform, Method::POST, "/v1/merchants", &json!({ "name": "One" })).await;
    let merchant: Value = merchant.json().unwrap();
    let first = json!({ "name": "first", "scopes": ["admin"], "merchant_id": merchant["id"] });
    let first = send(platform, Method::POST, "/v1/api-keys", &first).await;
    let first: Value = first.json().unwrap();
    let api = platform.with_operator_key(first["key"].as_str().unwrap());
    for number in 2..=KEYS {
        assert_eq!(new_key(&api).await.status, 201, "key {number}");
    }
    let keys = live_keys(&api).await;
    assert_eq!(keys.len(), KEYS);

    assert_conflict(&new_key(&api).await, "QUOTA_EXCEEDED");
    // With an overlap, the old key stays valid, so the new one would exceed the limit.
    let path = format!("/v1/api-keys/{}", keys[0]["id"].as_str().unwrap());
    let rotation = json!({ "overlap_seconds": 60 });
    let rotated = send(&api, Method::POST, &format!("{path}/rotate"), &rotation).await;
    assert_conflict(&rotated, "QUOTA_EXCEEDED");
    assert_eq!(live_keys(&api).await, keys, "nothing was made, and nothing revoked");

    assert_eq!(api.send(api.operator(Method::DELETE, &path)).await.unwrap().status, 204);
    assert_eq!(new_key(&api).await.status, 201);
    assert_conflict(&new_key(&api).await, "QUOTA_EXCEEDED");
    // Another merchant's keys are counted separately.
    assert_eq!(new_key(platform).await.status, 201);
    world.end().await;
}

#[tokio::test]
async fn a_key_that_is_accepted_is_listed_before_the_thousand_that_were_revoked_after_it() {
    let world = World::start("revoked keys").await;
    let platform = world.api();
    let old = json!({ "name": "old and accepted", "scopes": ["admin"] });
    let old: Value = send(platform, Method::POST, "/v1/api-keys", &old).await.json().unwrap();
    let mut connection = world.mysql().await;
    let revoked = format!(
        "insert into api_key (id, merchant_id, name, digest, scopes, created_at, revoked_at) \
         with recursive n (n) as (select 1 union all select n + 1 from n where n < {REVOKED}) \
         select id + n, merchant_id, 'revoked', digest, scopes, created_at, utc_timestamp(3) \
         from api_key join n where id = {}",
        old["id"].as_str().unwrap()
    );
    let rows = mysql_store::verify::execute(&mut connection, &revoked).await.unwrap();
    assert_eq!(rows, REVOKED);
    let api = platform.with_operator_key(old["key"].as_str().unwrap());
    let list = api.send(api.operator(Method::GET, "/v1/api-keys")).await.unwrap();
    assert_eq!(list.status, 200, "the old key still opens the api");
    let list: Value = list.json().unwrap();
    let keys = list["items"].as_array().unwrap();
    assert_eq!(keys.len(), LISTED);
    assert_eq!(keys[0]["id"], old["id"]);
    let ids: Vec<i64> =
        keys.iter().map(|key| key["id"].as_str().unwrap().parse().unwrap()).collect();
    assert!(ids[1..].is_sorted_by(|one, next| one > next), "then those that were, newest first");
    world.end().await;
}

#[tokio::test]
async fn who_comes_when_nothing_is_left_hears_so_and_holds_nothing() {
    let world = World::start("sold out").await;
    let template = world.template(1, |new| new).await;
    let claim = async |user| {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        shopper.claim(template, None, 1).await.unwrap()
    };
    assert_eq!(claim(1).await.status, 201);
    for user in 2..=4 {
        assert_conflict(&claim(user).await, "SOLD_OUT");
    }
    assert_eq!(claim(1).await.status, 201, "the winner's answer stays");
    assert_eq!(world.count(template).await.all(), 1);
    world.assert_sound(None).await;
    world.end().await;
}
