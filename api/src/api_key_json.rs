//! Operators' keys on the wire.

use chrono::{DateTime, Utc};
use coupon::{MerchantId, Scope};
use mysql_store::api_key::ApiKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    instant::instant,
    openapi::{self, Id, Instant},
};

/// What an operator sends to make a key.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "name": "Checkout", "scopes": ["operate"] })))]
pub(crate) struct NewKey {
    #[schema(min_length = 1, max_length = 100, pattern = "\\S")]
    pub(crate) name: String,
    #[schema(value_type = Vec<openapi::Scope>, min_items = 1)]
    pub(crate) scopes: Vec<String>,
    /// From then on it is not accepted; within ten years.
    #[schema(value_type = Option<Instant>)]
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// For whom; the platform's key alone may name another merchant than its own.
    #[schema(value_type = Option<Id>)]
    pub(crate) merchant_id: Option<MerchantId>,
}

/// How a key is replaced.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "overlap_seconds": 3600 })))]
pub(crate) struct Rotation {
    /// How long the old key is accepted still; a day if absent.
    #[schema(minimum = 0, maximum = 2592000)]
    pub(crate) overlap_seconds: Option<u32>,
}

/// Whose keys are asked for.
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
    #[schema(value_type = Vec<openapi::Scope>)]
    scopes: Vec<&'static str>,
    #[schema(value_type = Instant)]
    created_at: String,
    /// From then on it is not accepted; null: it does not end by itself.
    #[schema(value_type = Option<Instant>, required = true)]
    expires_at: Option<String>,
    /// The same, by an operator; in the future while it is being replaced.
    #[schema(value_type = Option<Instant>, required = true)]
    revoked_at: Option<String>,
    /// When it was last accepted, to a minute or so; null: it was not, since this is noted.
    #[schema(value_type = Option<Instant>, required = true)]
    last_used_at: Option<String>,
}

/// A key that was just made.
#[derive(Serialize, ToSchema)]
#[schema(as = NewApiKey, examples(example_told))]
pub(crate) struct NewKeyJson {
    #[serde(flatten)]
    pub(crate) told: KeyJson,
    /// What to send as `X-Api-Key`. It is not kept, and not told again.
    pub(crate) key: String,
}

/// Keys.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKeys, examples(json!({ "items": [example()] })))]
pub(crate) struct KeysJson {
    pub(crate) items: Vec<KeyJson>,
}

/// A key, as the document shows it.
fn example() -> Value {
    json!({
        "id": "2123985066110484480", "merchant_id": "2123985064051081216", "name": "Checkout",
        "scopes": ["operate"], "created_at": "2026-11-20T09:20:00.000Z",
        "expires_at": "2027-11-20T09:20:00.000Z", "revoked_at": null,
        "last_used_at": "2026-11-27T08:12:00.000Z",
    })
}

/// The same with its secret.
fn example_told() -> Value {
    let mut told = example();
    told["last_used_at"] = Value::Null;
    told["key"] = json!(format!("ck_2123985066110484480_{}", "x".repeat(43)));
    told
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
