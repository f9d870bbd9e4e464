//! The support desk: single coupons, grants to many users as jobs, and the search for all.

pub(crate) mod coupons;
pub(crate) mod grants;
pub(crate) mod jobs;
pub(crate) mod search;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod races;
    pub(crate) mod take_back;
}

use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api};

/// Sends a change with the operator's key.
pub(crate) async fn post(api: &Api, path: &str, body: &Value) -> Answer {
    api.send(api.operator(Method::POST, path).json(body)).await.unwrap()
}

/// Reads with the operator's key; the answer must be 200.
pub(crate) async fn get(api: &Api, path: &str) -> Value {
    let answer = api.send(api.operator(Method::GET, path)).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json().unwrap()
}

/// Status and code of a refusal.
pub(crate) fn refusal(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap_or_else(|| answer.body.clone()))
}

/// Creates another merchant, and returns a client with a key of it.
pub(crate) async fn another_merchant(api: &Api) -> Api {
    let merchant: Value = post(api, "/v1/merchants", &json!({ "name": "B" })).await.json().unwrap();
    let key = json!({ "name": "desk", "scopes": ["admin"], "merchant_id": merchant["id"] });
    let key: Value = post(api, "/v1/api-keys", &key).await.json().unwrap();
    api.with_operator_key(key["key"].as_str().unwrap())
}
