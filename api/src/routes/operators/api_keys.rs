//! Operators' keys: create, list, rotate and revoke over HTTP. A key's secret is shown only in the answer to the
//! request that made it, and again to the same request with the same `Idempotency-Key`. If that answer is lost and had
//! no such key, revoke the new key and make another.

use axum::{Json, extract::State, http::StatusCode};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ApiKeyId, Scope, Scopes, text};
use mysql_store::{
    MySqlConnection,
    api_key::{self as store, ApiKey, Created},
    connect,
    merchant::PLATFORM,
};
use serde_json::{Value, json};
use tracing::{error, info};

use crate::{
    auth::{Operator, api_key},
    code::Code,
    http::{
        cursor::Part,
        extract::{Body, Params, PathId},
        instant::instant,
        schemas::{Id, RequestId},
    },
    problem::Problem,
    routes::{
        audit::{
            self, Action,
            idempotency::{Answer, Begun, Known, Once},
        },
        operators::api_key_json::{KeyJson, KeysJson, ListParams, NewKey, NewKeyJson, Rotation},
    },
    state::App,
};

/// Longest name, in characters: the length of the `varchar(100)` column.
const NAME_CHARS_MAX: usize = 100;

/// Longest lifetime of a key that expires: ten years. Beyond it a typing error is likelier than a plan.
const LIFE_MAX: TimeDelta = TimeDelta::days(3_653);

/// How long a replaced key is accepted beside the new one by default: time to deploy the new one everywhere.
const OVERLAP_SECONDS: u32 = 24 * 60 * 60;

/// Longest overlap: thirty days. A key that is needed for longer is not being replaced.
const OVERLAP_SECONDS_MAX: u32 = 30 * OVERLAP_SECONDS;

/// Maximum keys in a list, ten times the quota's default: accepted ones first, then the newest ended ones.
const LISTED_MAX: u32 = 1_000;

/// `POST /v1/api-keys`
#[utoipa::path(
    post,
    path = "/v1/api-keys",
    operation_id = "create_api_key",
    tag = "Keys",
    summary = "Make a key",
    security(("operator_key" = [])),
    params(("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request may be sent again.")),
    request_body = NewKey,
    responses((status = 201, description = "The key. It is shown again only to the same request with the same `Idempotency-Key`.", body = NewKeyJson)),
    extensions(("x-problems" = json!(
        "PLATFORM_ONLY INVALID_KEY LIFE_TOO_LONG QUOTA_EXCEEDED HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID \
         IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    Body(new): Body<NewKey>,
) -> Result<Answer, Problem> {
    operator.needs(Scope::Admin)?;
    let once = once.asking(&new);
    let create = || create_once(&app, operator, &once, &new);
    connect::within(connect::retried(create, Problem::is_contended)).await
}

async fn create_once(
    app: &App,
    operator: Operator,
    once: &Once,
    new: &NewKey,
) -> Result<Answer, Problem> {
    let merchant_id = operator.merchant(new.merchant_id)?;
    let Begun { mut transaction, known } = once.begin(app, operator).await?;
    // Before validation: when a request is repeated, its `expires_at` may have passed.
    if let Known::Answer(answer) = known {
        return unsealed(answer, operator);
    }
    let now = app.clock.now();
    let key = ApiKey {
        id: app.ids.api_key()?,
        merchant_id,
        scopes: scopes(&new.scopes)?,
        name: name(&new.name)?,
        created_at: now,
        expires_at: new.expires_at.map(|end| expiry(end.0, now)).transpose()?,
        revoked_at: None,
        last_used_at: None,
    };
    lives_no_longer(&key, operator)?;
    reaches_no_further(&key, operator)?;
    let secret = secret(key.id)?;
    let action = Action {
        merchant_id: key.merchant_id,
        name: "key.create".to_owned(),
        target: target(key.id),
        before: None,
        after: Some(json!(KeyJson::from(&key))),
    };
    store_key(app, &mut transaction, &key, &secret).await?;
    audit::record(app, operator, &mut transaction, action).await?;
    let answer = keep(operator, once, &mut transaction, &key, secret).await?;
    app.commit(transaction).await?;
    info!(key.id = %key.id, merchant.id = %key.merchant_id, "made a key");
    Ok(answer)
}

/// `GET /v1/api-keys`
#[utoipa::path(
    get,
    path = "/v1/api-keys",
    operation_id = "list_api_keys",
    tag = "Keys",
    summary = "List keys, those that are accepted first",
    security(("operator_key" = [])),
    params(("merchant_id" = Option<Id>, Query, description = "Whose; another than one's own is for the platform's key.")),
    responses((status = 200, description = "A thousand at most: those that are accepted, then those that are not any more, each the newest first.", body = KeysJson)),
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
        store::list(&mut connection, merchant_id, app.clock.now(), LISTED_MAX).await
    });
    let Part { rows, unreadable, .. } = Part::of(keys.await?, LISTED_MAX, |key| key.id);
    let unreadable = unreadable.iter().map(ToString::to_string).collect();
    Ok(Json(KeysJson { items: rows.iter().map(KeyJson::from).collect(), unreadable }))
}

/// `POST /v1/api-keys/{id}/rotate`: makes a key with the same name, scopes and lifetime.
#[utoipa::path(
    post,
    path = "/v1/api-keys/{id}/rotate",
    operation_id = "rotate_api_key",
    tag = "Keys",
    summary = "Replace a key, and accept the old one for a while",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The old key."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request may be sent again.")
    ),
    request_body = Option<Rotation>,
    responses((status = 201, description = "A new key of the same name, scopes and length of life, but of no longer life than the key that asks. It is shown again only to the same request with the same `Idempotency-Key`.", body = NewKeyJson)),
    extensions(("x-problems" = json!(
        "PLATFORM_ONLY KEY_NOT_FOUND KEY_NOT_LIVE INVALID_KEY QUOTA_EXCEEDED HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID \
         IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    PathId(id): PathId<ApiKeyId>,
    Body(rotation): Body<Rotation>,
) -> Result<Answer, Problem> {
    operator.needs(Scope::Admin)?;
    let once = once.asking(&rotation);
    let seconds = rotation.overlap_seconds.unwrap_or(OVERLAP_SECONDS);
    if seconds > OVERLAP_SECONDS_MAX {
        return Err(invalid("overlap_seconds", format!("use 0 to {OVERLAP_SECONDS_MAX}")));
    }
    let overlap = TimeDelta::seconds(i64::from(seconds));
    let rotate = || rotate_once(&app, operator, &once, id, overlap);
    let answer = connect::within(connect::retried(rotate, Problem::is_contended)).await?;
    app.auth.forget(id);
    Ok(answer)
}

async fn rotate_once(
    app: &App,
    operator: Operator,
    once: &Once,
    id: ApiKeyId,
    overlap: TimeDelta,
) -> Result<Answer, Problem> {
    let Begun { mut transaction, known } = once.begin(app, operator).await?;
    if let Known::Answer(answer) = known {
        return unsealed(answer, operator);
    }
    let now = app.clock.now();
    let old = own(&mut transaction, operator, id).await?;
    if !old.is_live(now) {
        let detail = "The key is not accepted any more: make a new one.";
        return Err(Problem::new(Code::KeyNotLive, detail));
    }
    reaches_no_further(&old, operator)?;
    store::revoke(&mut transaction, id, now + overlap).await?;
    let life = old.expires_at.map(|end| end - old.created_at);
    // A leaked key must be replaceable at once, also by a caller whose own key expires. The new key then expires no
    // later than the caller's.
    let expires_at = life.map(|life| now + life).into_iter().chain(operator.ends_at).min();
    let id = app.ids.api_key()?;
    let revoked_at = None;
    let last_used_at = None;
    let new = ApiKey { id, created_at: now, expires_at, revoked_at, last_used_at, ..old.clone() };
    let secret = secret(new.id)?;
    store_key(app, &mut transaction, &new, &secret).await?;
    let action = Action {
        merchant_id: old.merchant_id,
        name: "key.rotate".to_owned(),
        target: target(old.id),
        before: Some(json!(KeyJson::from(&old))),
        after: Some(json!(KeyJson::from(&new))),
    };
    audit::record(app, operator, &mut transaction, action).await?;
    let answer = keep(operator, once, &mut transaction, &new, secret).await?;
    app.commit(transaction).await?;
    info!(key.id = %old.id, key.new_id = %new.id, "replaced a key");
    Ok(answer)
}

/// Makes the answer that shows a new key, and stores it with the secret sealed so that only the caller's own key can
/// read it.
async fn keep(
    operator: Operator,
    once: &Once,
    transaction: &mut MySqlConnection,
    key: &ApiKey,
    secret: String,
) -> Result<Answer, Problem> {
    let hidden = api_key::sealed(&secret, key.id, &operator.caller.seal).unwrap_or_default();
    let answer = Answer::new(
        StatusCode::CREATED,
        &NewKeyJson { properties: KeyJson::from(key), key: hidden.clone() },
    );
    once.end(operator, transaction, &answer).await?;
    Ok(answer.with(&hidden, &secret))
}

/// Returns a stored answer with its secret unsealed.
fn unsealed(answer: Answer, operator: Operator) -> Result<Answer, Problem> {
    let body: Value = serde_json::from_str(answer.body()).unwrap_or_default();
    let hidden = body["key"].as_str().unwrap_or_default();
    let secret = api_key::id_of(hidden)
        .and_then(|id| api_key::sealed(hidden, id, &operator.caller.seal))
        .ok_or_else(|| Problem::new(Code::StoreUnavailable, "The answer cannot be read."))?;
    Ok(answer.with(hidden, &secret))
}

/// Rejects a new key that would outlive the caller's: temporary access could otherwise be made permanent.
fn lives_no_longer(key: &ApiKey, operator: Operator) -> Result<(), Problem> {
    let Some(latest) = operator.ends_at else { return Ok(()) };
    if key.expires_at.is_some_and(|end| end <= latest) {
        return Ok(());
    }
    let latest = instant(latest);
    let detail = format!(
        "The key that asks ends at {latest}, and makes none that lives longer: send an `expires_at` until then."
    );
    Err(Problem::new(Code::LifeTooLong, detail).with("latest", latest))
}

/// Rejects a key of the scope `emergency` unless the platform's own key makes it for the platform's own merchant: no
/// other key may grant rights over all merchants, or obtain them by replacing another's key.
fn reaches_no_further(key: &ApiKey, operator: Operator) -> Result<(), Problem> {
    if !key.scopes.iter().any(|scope| scope == Scope::Emergency) {
        return Ok(());
    }
    operator.needs_platform()?;
    if key.merchant_id == PLATFORM {
        return Ok(());
    }
    let problem = "only keys of the platform's own merchant have the scope `emergency`".to_owned();
    Err(invalid("scopes", problem))
}

/// `DELETE /v1/api-keys/{id}`: revokes the key. Its row stays, since the audit record names it.
#[utoipa::path(
    delete,
    path = "/v1/api-keys/{id}",
    operation_id = "revoke_api_key",
    tag = "Keys",
    summary = "Revoke a key",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The key.")),
    responses((status = 204, description = "It is not accepted any more, within seconds everywhere.")),
    extensions(("x-problems" = json!("KEY_NOT_FOUND HOURLY_QUOTA_EXCEEDED OVERLOADED")))
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<ApiKeyId>,
) -> Result<StatusCode, Problem> {
    operator.needs(Scope::Admin)?;
    let revoke = || async {
        let mut transaction = connect::begin(&app.pool).await?;
        let old = own(&mut transaction, operator, id).await?;
        // The key is locked: an equal request that was faster has revoked it before.
        let now = app.clock.now();
        // A repeated revocation gets the same answer and is not recorded again.
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
    };
    connect::within(connect::retried(revoke, Problem::is_contended)).await?;
    app.auth.forget(id);
    info!(key.id = %id, "revoked a key");
    Ok(StatusCode::NO_CONTENT)
}

/// Reads and locks the key. Only the platform finds a key of another merchant.
async fn own(
    transaction: &mut MySqlConnection,
    operator: Operator,
    id: ApiKeyId,
) -> Result<ApiKey, Problem> {
    let key = store::lock(transaction, id).await?;
    key.filter(|key| operator.merchant(Some(key.merchant_id)).is_ok())
        .ok_or_else(|| Problem::new(Code::KeyNotFound, "There is no such key."))
}

async fn store_key(
    app: &App,
    transaction: &mut MySqlConnection,
    key: &ApiKey,
    secret: &str,
) -> Result<(), Problem> {
    let digest = api_key::digest_of(secret.as_bytes());
    match store::create(transaction, key, &digest, app.quotas.merchant_keys).await? {
        Created::Done => Ok(()),
        Created::NoMerchant => Err(invalid("merchant_id", "there is no such merchant".to_owned())),
        Created::TooMany => Err(app.quotas.no_more_keys()),
    }
}

fn secret(id: ApiKeyId) -> Result<String, Problem> {
    api_key::new(id).map_err(|error| {
        error!(error = runtime::report(&error), "the system gives no random bytes");
        Problem::new(Code::Overloaded, "No key can be made now. Send the request again.")
    })
}

fn scopes(words: &[String]) -> Result<Scopes, Problem> {
    let scopes: Option<Vec<Scope>> = words.iter().map(|word| Scope::from_word(word)).collect();
    scopes.and_then(Scopes::of).ok_or_else(|| {
        invalid(
            "scopes",
            "use one or more of read, operate, admin, redeem and emergency".to_owned(),
        )
    })
}

fn name(name: &str) -> Result<String, Problem> {
    text::wrong(name, NAME_CHARS_MAX)
        .map_or(Ok(name.to_owned()), |wrong| Err(invalid("name", wrong)))
}

fn expiry(end: DateTime<Utc>, now: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    if end > now && end <= now + LIFE_MAX {
        return Ok(end);
    }
    Err(invalid("expires_at", "use a time within the next ten years".to_owned()))
}

fn invalid(field: &str, problem: String) -> Problem {
    Problem::new(Code::InvalidKey, format!("{field}: {problem}.")).with("field", field)
}

fn target(id: ApiKeyId) -> String {
    format!("api-keys/{id}")
}
