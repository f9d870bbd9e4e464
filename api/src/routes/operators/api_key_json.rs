//! JSON bodies of operators' keys.

use coupon::{MerchantId, Scope};
use mysql_store::api_key::ApiKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::http::{
    instant::{RequestInstant, instant},
    schemas::{self, Id, Instant},
};

/// Request to create a key.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "name": "Checkout", "scopes": ["operate"] })))]
pub(crate) struct NewKey {
    #[schema(min_length = 1, max_length = 100, pattern = "\\S")]
    pub(crate) name: String,
    #[schema(value_type = Vec<schemas::Scope>, min_items = 1)]
    pub(crate) scopes: Vec<String>,
    /// When the key expires, within ten years. Absent: never.
    pub(crate) expires_at: Option<RequestInstant>,
    /// The merchant of the key. Only the platform's key may name a merchant other than its own.
    #[schema(value_type = Option<Id>)]
    pub(crate) merchant_id: Option<MerchantId>,
}

/// Request to replace a key.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "overlap_seconds": 3600 })))]
pub(crate) struct Rotation {
    /// How long the old key is still accepted, in seconds. Default: one day.
    #[schema(minimum = 0, maximum = 2592000)]
    pub(crate) overlap_seconds: Option<u32>,
}

#[derive(Deserialize)]
pub(crate) struct ListParams {
    pub(crate) merchant_id: Option<MerchantId>,
}

/// A key, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKey, examples(example))]
pub(crate) struct KeyJson {
    #[schema(value_type = Id)]
    id: String,
    #[schema(value_type = Id)]
    merchant_id: String,
    name: String,
    #[schema(value_type = Vec<schemas::Scope>)]
    scopes: Vec<&'static str>,
    #[schema(value_type = Instant)]
    created_at: String,
    /// When the key expires. Null: never.
    #[schema(value_type = Option<Instant>, required = true)]
    expires_at: Option<String>,
    /// When an operator revoked the key; in the future while it is being replaced. Null: it was not revoked.
    #[schema(value_type = Option<Instant>, required = true)]
    revoked_at: Option<String>,
    /// When the key was last accepted, to about a minute. Null: not since this is recorded.
    #[schema(value_type = Option<Instant>, required = true)]
    last_used_at: Option<String>,
}

/// A new key with its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = NewApiKey, examples(example_new))]
pub(crate) struct NewKeyJson {
    #[serde(flatten)]
    pub(crate) properties: KeyJson,
    /// Value of the `X-Api-Key` header. It is shown again only to the same request with the same `Idempotency-Key`.
    pub(crate) key: String,
}

/// A list of keys.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKeys, examples(json!({ "items": [example()] })))]
pub(crate) struct KeysJson {
    pub(crate) items: Vec<KeyJson>,
    /// Ids of keys that cannot be read, because a value of theirs is damaged: none of them is accepted. Absent: there is
    /// none.
    #[schema(value_type = Vec<Id>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<String>,
}

/// Example of a key for the OpenAPI document.
fn example() -> Value {
    json!({
        "id": "2123985066110484480", "merchant_id": "2123985064051081216", "name": "Checkout",
        "scopes": ["operate"], "created_at": "2026-11-20T09:20:00.000Z",
        "expires_at": "2027-11-20T09:20:00.000Z", "revoked_at": null,
        "last_used_at": "2026-11-27T08:12:00.000Z",
    })
}

/// Example of a new key with its secret.
fn example_new() -> Value {
    let mut new = example();
    new["last_used_at"] = Value::Null;
    new["key"] = json!(format!("ck_2123985066110484480_{}", "x".repeat(43)));
    new
}

impl From<&ApiKey> for KeyJson {
    fn from(key: &ApiKey) -> Self {
        Self {
            id: key.id.to_string(),
            merchant_id: key.merchant_id.to_string(),
            name: key.name.clone(),
            scopes: key.scopes.iter().map(Scope::word).collect(),
            created_at: instant(key.created_at),
            expires_at: key.expires_at.map(instant),
            revoked_at: key.revoked_at.map(instant),
            last_used_at: key.last_used_at.map(instant),
        }
    }
}
