//! `GET /v1/shop/templates/{id}`: what a shop page shows, to anybody, from memory.
//!
//! Neither the template nor what is left of it is read from MySQL while pages are open: the one comes from
//! the template cache, the other from the gate by way of [`crate::shop_stock`].

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId, TemplateState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    body::PathId,
    claims::unknown_template,
    openapi::{Id, IfNoneMatch},
    precondition::is_known,
    problem::Problem,
    state::App,
    template_json::TermsJson,
};

/// How long a browser or a proxy may show an answer that can still change: what is left changes by the
/// second, and one request a second from each proxy is nothing.
const CHANGING: HeaderValue = HeaderValue::from_static("public, max-age=1");

/// The same within a second of the opening: nobody shall learn of it late.
const OPENING: HeaderValue = HeaderValue::from_static("public, no-cache");

/// The same once it is over.
const OVER: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// A template as a shopper sees it.
#[derive(Serialize, ToSchema)]
#[schema(examples(json!({
    "id": "2123985067360387072", "name": "A sale", "state": "open",
    "discount": { "kind": "amount_off", "value": 500, "cap": null, "minimum_spend": 2000, "currency": "EUR" },
    "per_user_limit": 1, "max_per_claim": 1, "claim_starts_at": "2026-11-27T08:00:00.000Z",
    "claim_ends_at": "2026-11-28T08:00:00.000Z", "valid_for_ms": 604800000, "left": 873, "opens_in_ms": 0
})))]
struct ShopTemplate {
    #[schema(value_type = Id)]
    id: String,
    name: String,
    state: ShopState,
    #[serde(flatten)]
    terms: TermsJson,
    /// How many are left; null: not known at the moment, e.g. while the gate is loaded, or it is over.
    #[schema(minimum = 0, required = true)]
    left: Option<i64>,
    /// In how many milliseconds claims open, by our clock at the time of the answer; 0: they are open, or
    /// were. For a countdown that does not depend on the shopper's clock.
    #[schema(minimum = 0)]
    opens_in_ms: i64,
}

/// What a shopper can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ShopState {
    /// Wait: the window has not opened.
    Upcoming,
    /// Claim.
    Open,
    /// Nothing is left; the shop may add some.
    SoldOut,
    /// Come again: the shop holds it.
    Paused,
    /// Nothing: the window is over.
    Closed,
    /// Nothing: the shop ended it.
    Ended,
}

/// `GET /v1/shop/templates/{id}`
#[utoipa::path(
    get,
    path = "/v1/shop/templates/{id}",
    operation_id = "get_shop_template",
    tag = "Shop",
    summary = "What a shop page shows",
    params(
        ("id" = Id, Path, description = "The template."),
        ("If-None-Match" = Option<IfNoneMatch>, Header, description = "The `ETag` of an answer that is at hand.")
    ),
    responses(
        (status = 200, description = "The template, from memory.", body = ShopTemplate,
            headers(("ETag" = String, description = "Stands for template, state and `left`."), ("Cache-Control" = String))),
        (status = 304, description = "It is as it was; a countdown runs on.",
            headers(("ETag" = String), ("Cache-Control" = String)))
    ),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let template = app.templates.published(id).await?.ok_or_else(unknown_template)?;
    let now = app.clock.now();
    // Where no gate is wanted there is none to be asked.
    let left = if app.gates.wants(&template, now) { app.shop_stock.left(id).await } else { None };
    let state = ShopState::of(&template, left, now);
    let mut answer = HeaderMap::new();
    answer.insert(header::CACHE_CONTROL, cache_control(&template, state, now));
    let etag = etag(&template, state, left);
    if let Ok(value) = HeaderValue::from_str(&etag) {
        answer.insert(header::ETAG, value);
    }
    if is_known(&headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, answer).into_response());
    }
    let body = ShopTemplate {
        id: template.id.to_string(),
        name: template.name.clone(),
        state,
        terms: TermsJson::from(&*template),
        left,
        opens_in_ms: opens_in_ms(&template, now),
    };
    Ok((answer, Json(body)).into_response())
}

impl ShopState {
    fn of(template: &Template, left: Option<i64>, now: DateTime<Utc>) -> Self {
        match template.state {
            // A draft is nobody's to see; the cache holds none.
            TemplateState::Ended | TemplateState::Draft => Self::Ended,
            _ if now >= template.window.ends_at => Self::Closed,
            TemplateState::Paused => Self::Paused,
            TemplateState::Published if now < template.window.starts_at => Self::Upcoming,
            TemplateState::Published if left == Some(0) => Self::SoldOut,
            TemplateState::Published => Self::Open,
        }
    }
}

fn opens_in_ms(template: &Template, now: DateTime<Utc>) -> i64 {
    (template.window.starts_at - now).num_milliseconds().max(0)
}

fn cache_control(template: &Template, state: ShopState, now: DateTime<Utc>) -> HeaderValue {
    match state {
        ShopState::Closed | ShopState::Ended => OVER,
        ShopState::Upcoming if opens_in_ms(template, now) < 1_000 => OPENING,
        ShopState::Upcoming | ShopState::Open | ShopState::SoldOut | ShopState::Paused => CHANGING,
    }
}

/// Weak: two answers with this tag mean the same, though `opens_in_ms` counts down from one to the other.
/// So a client that is told "not modified" lets its own countdown run on.
fn etag(template: &Template, state: ShopState, left: Option<i64>) -> String {
    let left = left.map_or_else(|| "unknown".to_owned(), |left| left.to_string());
    format!("W/\"{}.{state:?}.{left}\"", template.version)
}
