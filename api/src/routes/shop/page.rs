//! `GET /v1/shop/templates/{id}`: what a shop page shows, public and from memory.
//!
//! No page waits for MySQL: the template comes from the template cache, what is left from the gate through
//! [`crate::shop::stock`], which also has the total.

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
    http::{
        etag::is_known,
        extract::PathId,
        schemas::{Id, IfNoneMatch},
    },
    problem::{Problem, unknown_template},
    routes::bodies::template_json::TermsJson,
    shop::stock::Shown,
    state::App,
};

/// Caching of an answer that can still change: what is left changes by the second, and one request a second from each
/// proxy is no load.
pub(super) const CHANGING: HeaderValue = HeaderValue::from_static("public, max-age=1");

/// Caching within the second before claims open, so that no page learns of it late.
pub(super) const OPENING: HeaderValue = HeaderValue::from_static("public, no-cache");

/// Caching once the template is over.
const OVER: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// A template as a shopper sees it.
#[derive(Serialize, ToSchema)]
#[schema(examples(json!({
    "id": "2123985067360387072", "name": "A sale", "state": "open",
    "discount": { "kind": "amount_off", "amount_off_minor": 500, "cap_minor": null, "minimum_spend_minor": 2000, "currency": "EUR" },
    "discount_text": "€5.00 off, from €20.00",
    "per_user_limit": 1, "max_per_claim": 1, "hold_ms": 0,
    "claim_starts_at": "2026-11-27T08:00:00.000Z",
    "claim_ends_at": "2026-11-28T08:00:00.000Z", "valid_for_ms": 604800000, "left": 873, "total": 1000,
    "opens_in_ms": 0
})))]
pub(crate) struct ShopTemplate {
    #[schema(value_type = Id)]
    id: String,
    name: String,
    state: ShopState,
    #[serde(flatten)]
    terms: TermsJson,
    /// Coupons that are left. Null: not known at the moment, e.g. while the gate is being loaded, or the template is
    /// over.
    #[schema(minimum = 0, required = true)]
    left: Option<i64>,
    /// Coupons that are given out in all. Null: not known at the moment; the next answer has it.
    #[schema(minimum = 0, required = true)]
    total: Option<i64>,
    /// Milliseconds until claims open, by MySQL's clock at the time of the answer. 0: they are open, or were. For
    /// a countdown that does not depend on the shopper's clock.
    #[schema(minimum = 0)]
    opens_in_ms: i64,
}

/// The state of a template for shoppers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ShopState {
    /// The claim window has not opened.
    Upcoming,
    /// Coupons can be claimed.
    Open,
    /// Nothing is left. The shop may add stock.
    SoldOut,
    /// The shop has paused claims.
    Paused,
    /// The claim window is over.
    Closed,
    /// The shop has ended the template.
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
            headers(("ETag" = String, description = "Stands for template, state, `left` and `total`."), ("Cache-Control" = String))),
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
    let template = app.templates.visible(id).await?.ok_or_else(unknown_template)?;
    let shown = ShopTemplate::look(&app, &template, app.sale_clock.now()).await;
    let etag = format!("W/\"{}\"", shown.mark(&template));
    Ok(answer(&headers, &etag, shown.cache_control(), shown))
}

/// Answers with the body, or 304 if the client has an answer with this weak tag.
pub(super) fn answer<T: Serialize>(
    asked: &HeaderMap,
    etag: &str,
    cache_control: HeaderValue,
    body: T,
) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::CACHE_CONTROL, cache_control);
    if let Ok(value) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, value);
    }
    if is_known(asked, etag) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, Json(body)).into_response()
}

impl ShopTemplate {
    /// Shows a template with what is left of it by the gate, and its total.
    pub(super) async fn look(app: &App, template: &Template, now: DateTime<Utc>) -> Self {
        let id = template.id;
        // A template that needs no gate has no figure to ask it for.
        let has_gate = app.gates.wants(template, now);
        let Shown { left, total } = app.shop_stock.shown(id, has_gate).await;
        Self {
            id: id.to_string(),
            name: template.name.clone(),
            state: ShopState::of(template, left, now),
            terms: TermsJson::from(template),
            left,
            total,
            opens_in_ms: (template.window.starts_at - now).num_milliseconds().max(0),
        }
    }

    /// Shows a template of which nothing is claimed, as once its gate is loaded.
    pub(crate) fn untouched(template: &Template, total: i64, now: DateTime<Utc>) -> Self {
        Self {
            id: template.id.to_string(),
            name: template.name.clone(),
            state: ShopState::of(template, Some(total), now),
            terms: TermsJson::from(template),
            left: Some(total),
            total: Some(total),
            opens_in_ms: (template.window.starts_at - now).num_milliseconds().max(0),
        }
    }

    /// Returns how long a proxy may keep an answer that shows this.
    pub(super) fn cache_control(&self) -> HeaderValue {
        match self.state {
            ShopState::Closed | ShopState::Ended => OVER,
            ShopState::Upcoming if self.is_opening() => OPENING,
            ShopState::Upcoming | ShopState::Open | ShopState::SoldOut | ShopState::Paused => {
                CHANGING
            }
        }
    }

    /// Returns whether claims open within a second.
    pub(super) fn is_opening(&self) -> bool {
        self.state == ShopState::Upcoming && self.opens_in_ms < 1_000
    }

    /// Names all that is shown but the countdown. Its entity tag is weak: two answers with it mean the same, although
    /// `opens_in_ms` counts down between them. A client that receives 304 continues its own countdown.
    pub(super) fn mark(&self, template: &Template) -> String {
        let [left, total] = [self.left, self.total]
            .map(|count| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string()));
        format!("{}.{:?}.{left}.{total}", template.version, self.state)
    }
}

impl ShopState {
    fn of(template: &Template, left: Option<i64>, now: DateTime<Utc>) -> Self {
        match template.state {
            // Shoppers do not see drafts; the cache holds none.
            TemplateState::Ended | TemplateState::Draft => Self::Ended,
            _ if now >= template.window.ends_at => Self::Closed,
            TemplateState::Paused => Self::Paused,
            TemplateState::Published if now < template.window.starts_at => Self::Upcoming,
            TemplateState::Published if left == Some(0) => Self::SoldOut,
            TemplateState::Published => Self::Open,
        }
    }
}
