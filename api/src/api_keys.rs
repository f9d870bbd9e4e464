//! Operators' keys: made, listed, replaced and withdrawn over HTTP. A key is told once, in the answer to the
//! request that made it; if that answer is lost, withdraw it and make another.

use axum::{Json, extract::State, http::StatusCode};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{ApiKeyId, MerchantId, Scope, Scopes};
use mysql_store::{
    MySqlConnection,
    api_key::{self as store, ApiKey, Created, LIVE_MAX},
    connect,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{error, info};
use utoipa::ToSchema;

use crate::{
    api_key,
    audit::{self, Action},
    auth::Operator,
    body::{Body, Params, PathId},
    instant::instant,
    openapi::{self, Id, Instant},
    problem::Problem,
    state::App,
};

/// Longest name, in characters: the `varchar(100)` that holds it.
const NAME_CHARS_MAX: usize = 100;

/// Longest life of a key that is to end: ten years. Beyond it a typing error is likelier than a plan.
const LIFE_MAX: TimeDelta = TimeDelta::days(3_653);

/// How long a replaced key is accepted beside the new one, unless somebody says otherwise: time to bring the
/// new one everywhere.
const OVERLAP_SECONDS: u32 = 24 * 60 * 60;

/// The longest such time: thirty days. A key that is needed for longer is not being replaced.
const OVERLAP_SECONDS_MAX: u32 = 30 * OVERLAP_SECONDS;

/// Keys of a list, the newest: those that are accepted, and the last hundreds that were.
const LISTED_MAX: u32 = 1_000;

/// What an operator sends to make a key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "name": "Checkout", "scopes": ["operate"] })))]
pub(crate) struct NewKey {
    #[schema(min_length = 1, max_length = 100, pattern = "\\S")]
    name: String,
    #[schema(value_type = Vec<openapi::Scope>, min_items = 1)]
    scopes: Vec<String>,
    /// From then on it is not accepted; within ten years.
    #[schema(value_type = Option<Instant>)]
    expires_at: Option<DateTime<Utc>>,
    /// For whom; the platform's key alone may name another merchant than its own.
    #[schema(value_type = Option<Id>)]
    merchant_id: Option<MerchantId>,
}

/// How a key is replaced.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "overlap_seconds": 3600 })))]
pub(crate) struct Rotation {
    /// How long the old key is accepted still; a day if absent.
    #[schema(minimum = 0, maximum = 2592000)]
    overlap_seconds: Option<u32>,
}

/// Whose keys are asked for.
#[derive(Deserialize)]
pub(crate) struct ListParams {
    merchant_id: Option<MerchantId>,
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
}

/// A key that was just made.
#[derive(Serialize, ToSchema)]
#[schema(as = NewApiKey, examples(example_told))]
pub(crate) struct NewKeyJson {
    #[serde(flatten)]
    told: KeyJson,
    /// What to send as `X-Api-Key`. It is not kept, and not told again.
    key: String,
}

/// Keys.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKeys, examples(json!({ "items": [example()] })))]
pub(crate) struct KeysJson {
    items: Vec<KeyJson>,
}

/// A key, as the document shows it.
fn example() -> Value {
    json!({
        "id": "2123985066110484480", "merchant_id": "2123985064051081216", "name": "Checkout",
        "scopes": ["operate"], "created_at": "2026-11-20T09:20:00.000Z",
        "expires_at": "2027-11-20T09:20:00.000Z", "revoked_at": null,
    })
}

/// The same with its secret.
fn example_told() -> Value {
    let mut told = example();
    told["key"] = json!(format!("ck_2123985066110484480_{}", "x".repeat(43)));
    told
}

/// `POST /v1/api-keys`
#[utoipa::path(
    post,
    path = "/v1/api-keys",
    operation_id = "create_api_key",
    tag = "Keys",
    summary = "Make a key",
    security(("operator_key" = [])),
    request_body = NewKey,
    responses((status = 201, description = "The key. It is not told again.", body = NewKeyJson)),
    extensions(("x-problems" = json!("PLATFORM_ONLY INVALID_KEY TOO_MANY_KEYS OVERLOADED")))
)]
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    Body(new): Body<NewKey>,
) -> Result<(StatusCode, Json<NewKeyJson>), Problem> {
    operator.needs(Scope::Admin)?;
    let now = app.clock.now();
    let key = ApiKey {
        id: app.ids.api_key()?,
        merchant_id: operator.merchant(new.merchant_id)?,
        scopes: scopes(&new.scopes)?,
        name: name(new.name)?,
        created_at: now,
        expires_at: new.expires_at.map(|end| expiry(end, now)).transpose()?,
        revoked_at: None,
    };
    let secret = secret(key.id)?;
    let action = Action {
        merchant_id: key.merchant_id,
        name: "key.create".to_owned(),
        target: target(key.id),
        before: None,
        after: Some(json!(KeyJson::from(&key))),
    };
    connect::within(async {
        let mut transaction = connect::begin(&app.pool).await?;
        store_key(&mut transaction, &key, &secret).await?;
        audit::record(&app, operator, &mut transaction, action).await?;
        Ok::<_, Problem>(connect::commit(transaction).await?)
    })
    .await?;
    info!(key.id = %key.id, merchant.id = %key.merchant_id, "made a key");
    Ok((StatusCode::CREATED, Json(NewKeyJson { told: KeyJson::from(&key), key: secret })))
}

/// `GET /v1/api-keys`
#[utoipa::path(
    get,
    path = "/v1/api-keys",
    operation_id = "list_api_keys",
    tag = "Keys",
    summary = "List keys, the newest first",
    security(("operator_key" = [])),
    params(("merchant_id" = Option<Id>, Query, description = "Whose; another than one's own is for the platform's key.")),
    responses((status = 200, description = "The newest thousand.", body = KeysJson)),
    extensions(("x-problems" = json!("PLATFORM_ONLY")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<ListParams>,
) -> Result<Json<KeysJson>, Problem> {
    operator.needs(Scope::Admin)?;
    let merchant_id = operator.merchant(params.merchant_id)?;
    let keys = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        store::list(&mut connection, merchant_id, LISTED_MAX).await
    });
    Ok(Json(KeysJson { items: keys.await?.iter().map(KeyJson::from).collect() }))
}

/// `POST /v1/api-keys/{id}/rotate`: a new key of the same name, scopes and length of life.
#[utoipa::path(
    post,
    path = "/v1/api-keys/{id}/rotate",
    operation_id = "rotate_api_key",
    tag = "Keys",
    summary = "Replace a key, and accept the old one for a while",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The old key.")),
    request_body = Option<Rotation>,
    responses((status = 201, description = "A new key of the same name, scopes and length of life. It is not told again.", body = NewKeyJson)),
    extensions(("x-problems" = json!("KEY_NOT_FOUND KEY_NOT_LIVE INVALID_KEY TOO_MANY_KEYS OVERLOADED")))
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<ApiKeyId>,
    Body(rotation): Body<Rotation>,
) -> Result<(StatusCode, Json<NewKeyJson>), Problem> {
    operator.needs(Scope::Admin)?;
    let seconds = rotation.overlap_seconds.unwrap_or(OVERLAP_SECONDS);
    if seconds > OVERLAP_SECONDS_MAX {
        return Err(invalid("overlap_seconds", format!("use 0 to {OVERLAP_SECONDS_MAX}")));
    }
    let now = app.clock.now();
    let ends_at = now + TimeDelta::seconds(i64::from(seconds));
    let new_id = app.ids.api_key()?;
    let secret = secret(new_id)?;
    let new = connect::within(async {
        let mut transaction = connect::begin(&app.pool).await?;
        let old = own(&mut transaction, operator, id).await?;
        if !old.is_live(now) {
            let detail = "The key is not accepted any more: make a new one.";
            return Err(Problem::conflict("KEY_NOT_LIVE", "The key has ended", detail));
        }
        store::revoke(&mut transaction, id, ends_at).await?;
        let life = old.expires_at.map(|end| end - old.created_at);
        let (created_at, expires_at) = (now, life.map(|life| now + life));
        let new = ApiKey { id: new_id, created_at, expires_at, revoked_at: None, ..old.clone() };
        store_key(&mut transaction, &new, &secret).await?;
        let action = Action {
            merchant_id: old.merchant_id,
            name: "key.rotate".to_owned(),
            target: target(id),
            before: Some(json!(KeyJson::from(&old))),
            after: Some(json!(KeyJson::from(&new))),
        };
        audit::record(&app, operator, &mut transaction, action).await?;
        connect::commit(transaction).await?;
        Ok(new)
    })
    .await?;
    app.auth.forget(id);
    info!(key.id = %id, key.new_id = %new.id, "replaced a key");
    Ok((StatusCode::CREATED, Json(NewKeyJson { told: KeyJson::from(&new), key: secret })))
}

/// `DELETE /v1/api-keys/{id}`: withdraws the key. The row stays: the record names it.
#[utoipa::path(
    delete,
    path = "/v1/api-keys/{id}",
    operation_id = "revoke_api_key",
    tag = "Keys",
    summary = "Revoke a key",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The key.")),
    responses((status = 204, description = "It is not accepted any more, within seconds everywhere.")),
    extensions(("x-problems" = json!("KEY_NOT_FOUND OVERLOADED")))
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<ApiKeyId>,
) -> Result<StatusCode, Problem> {
    operator.needs(Scope::Admin)?;
    let now = app.clock.now();
    connect::within(async {
        let mut transaction = connect::begin(&app.pool).await?;
        let old = own(&mut transaction, operator, id).await?;
        // The same call again, after its answer was lost, is the same answer.
        if store::revoke(&mut transaction, id, now).await? {
            let revoked = ApiKey { revoked_at: Some(now), ..old.clone() };
            let action = Action {
                merchant_id: old.merchant_id,
                name: "key.revoke".to_owned(),
                target: target(id),
                before: Some(json!(KeyJson::from(&old))),
                after: Some(json!(KeyJson::from(&revoked))),
            };
            audit::record(&app, operator, &mut transaction, action).await?;
        }
        Ok::<_, Problem>(connect::commit(transaction).await?)
    })
    .await?;
    app.auth.forget(id);
    info!(key.id = %id, "revoked a key");
    Ok(StatusCode::NO_CONTENT)
}

/// The key, locked; another merchant's is as good as none, but to the platform.
async fn own(
    transaction: &mut MySqlConnection,
    operator: Operator,
    id: ApiKeyId,
) -> Result<ApiKey, Problem> {
    let key = store::lock(transaction, id).await?;
    key.filter(|key| operator.merchant(Some(key.merchant_id)).is_ok())
        .ok_or_else(|| Problem::not_found("KEY_NOT_FOUND", "There is no such key."))
}

async fn store_key(
    transaction: &mut MySqlConnection,
    key: &ApiKey,
    secret: &str,
) -> Result<(), Problem> {
    match store::create(transaction, key, &api_key::digest_of(secret.as_bytes())).await? {
        Created::Done => Ok(()),
        Created::NoMerchant => Err(invalid("merchant_id", "there is no such merchant".to_owned())),
        Created::TooMany => {
            let detail = format!("A merchant has at most {LIVE_MAX} keys. Revoke one first.");
            Err(Problem::conflict("TOO_MANY_KEYS", "Too many keys", detail))
        }
    }
}

fn secret(id: ApiKeyId) -> Result<String, Problem> {
    api_key::new(id).map_err(|error| {
        error!(error = runtime::report(&error), "the system gives no random bytes");
        Problem::unavailable("OVERLOADED", "No key can be made now. Send the request again.")
    })
}

fn scopes(words: &[String]) -> Result<Scopes, Problem> {
    let scopes: Option<Vec<Scope>> = words.iter().map(|word| Scope::from_word(word)).collect();
    scopes.and_then(Scopes::of).ok_or_else(|| {
        invalid("scopes", "use one or more of read, operate, admin and redeem".to_owned())
    })
}

fn name(name: String) -> Result<String, Problem> {
    if name.trim().is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(invalid("name", format!("use 1 to {NAME_CHARS_MAX} characters")));
    }
    Ok(name)
}

fn expiry(end: DateTime<Utc>, now: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    if end > now && end <= now + LIFE_MAX {
        return Ok(end.trunc_subsecs(3));
    }
    Err(invalid("expires_at", "use a time within the next ten years".to_owned()))
}

fn invalid(field: &str, problem: String) -> Problem {
    Problem::invalid("INVALID_KEY", format!("{field}: {problem}.")).with("field", field)
}

fn target(id: ApiKeyId) -> String {
    format!("api-keys/{id}")
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
        }
    }
}
