//! What became of a template: `GET /v1/templates/{id}/movements`, `claims` and `coupons`, as pages or whole.

use axum::{extract::State, http::HeaderMap, response::Response};
use coupon::{CouponStatus, TemplateId, UserId};
use serde::Deserialize;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::Page,
        extract::{Params, PathId},
        instant::RequestInstant,
        schemas::{self, Cursor, Id, Instant},
    },
    problem::Problem,
    routes::{
        bodies::history_rows::{ClaimRow, CouponRow, MovementRow},
        operators::templates::{
            export::answer,
            history_lists::{Claims, Coupons, Movements, Period},
            owned, seen,
        },
    },
    state::App,
};

#[derive(Deserialize)]
pub(crate) struct MovementParams {
    limit: Option<u32>,
    cursor: Option<String>,
    from: Option<RequestInstant>,
    to: Option<RequestInstant>,
}

#[derive(Deserialize)]
pub(crate) struct ClaimParams {
    limit: Option<u32>,
    cursor: Option<String>,
    state: Option<String>,
    user_id: Option<UserId>,
    from: Option<RequestInstant>,
    to: Option<RequestInstant>,
}

#[derive(Deserialize)]
pub(crate) struct CouponParams {
    limit: Option<u32>,
    cursor: Option<String>,
    status: Option<String>,
    user_id: Option<UserId>,
    from: Option<RequestInstant>,
    to: Option<RequestInstant>,
}

/// `GET /v1/templates/{id}/movements`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/movements",
    operation_id = "list_template_movements",
    tag = "Stock",
    summary = "List a template's stock movements, the first one first",
    description = "With `Accept: application/x-ndjson` or `text/csv`: all of them, as a stream without pages.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the first."),
        ("from" = Option<Instant>, Query, description = "Only those made then or later."),
        ("to" = Option<Instant>, Query, description = "Only those made before.")
    ),
    responses((status = 200, description = "A page.", body = Page<MovementRow>)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_LIMIT INVALID_CURSOR OVERLOADED")))
)]
pub(crate) async fn movements(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
    Params(params): Params<MovementParams>,
) -> Result<Response, Problem> {
    seen(&app, operator, id).await?;
    let MovementParams { limit, cursor, from, to } = params;
    let list = Movements { template: id, period: Period::asked(from, to) };
    answer(&app, operator, id, &headers, limit, cursor.as_ref(), list).await
}

/// `GET /v1/templates/{id}/claims`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/claims",
    operation_id = "list_template_claims",
    tag = "Operations",
    summary = "List a template's claims, by user",
    description = "Those that landed, those that were rejected behind their queue, and those that were given up. A page may be short, even empty, and still have a next one. \
        With `Accept: application/x-ndjson` or `text/csv`: all of them, as a stream without pages.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the first."),
        ("state" = Option<String>, Query, description = "Only those that `landed`, were `rejected`, or were `given_up`."),
        ("user_id" = Option<Id>, Query, description = "Only those of this user."),
        ("from" = Option<Instant>, Query, description = "Only those made then or later."),
        ("to" = Option<Instant>, Query, description = "Only those made before.")
    ),
    responses((status = 200, description = "A page.", body = Page<ClaimRow>)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_LIMIT INVALID_CURSOR INVALID_STATUS OVERLOADED")))
)]
pub(crate) async fn claims(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
    Params(params): Params<ClaimParams>,
) -> Result<Response, Problem> {
    owned(&app, operator, id).await?;
    let ClaimParams { limit, cursor, state, user_id, from, to } = params;
    let state = state.as_deref().map(|word| {
        ClaimRow::state_of(word).ok_or_else(|| {
            let detail = "Use a `state` of landed, rejected or given_up.";
            Problem::new(Code::InvalidStatus, detail)
        })
    });
    let state = state.transpose()?;
    let period = Period::asked(from, to);
    let list = Claims { template: id, user: user_id, state, period };
    answer(&app, operator, id, &headers, limit, cursor.as_ref(), list).await
}

/// `GET /v1/templates/{id}/coupons`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/coupons",
    operation_id = "list_template_coupons",
    tag = "Operations",
    summary = "List a template's coupons, by user",
    description = "A page may be short, even empty, and still have a next one. \
        With `Accept: application/x-ndjson` or `text/csv`: all of them, as a stream without pages.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the first."),
        ("status" = Option<schemas::CouponStatus>, Query, description = "Only those of this status."),
        ("user_id" = Option<Id>, Query, description = "Only those of this user."),
        ("from" = Option<Instant>, Query, description = "Only those claimed then or later."),
        ("to" = Option<Instant>, Query, description = "Only those claimed before.")
    ),
    responses((status = 200, description = "A page.", body = Page<CouponRow>)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_LIMIT INVALID_CURSOR INVALID_STATUS OVERLOADED")))
)]
pub(crate) async fn coupons(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
    Params(params): Params<CouponParams>,
) -> Result<Response, Problem> {
    owned(&app, operator, id).await?;
    let CouponParams { limit, cursor, status, user_id, from, to } = params;
    let status = status.as_deref().map(|word| {
        CouponStatus::from_word(word).ok_or_else(|| {
            let detail = "Use a `status` that a coupon can have, e.g. unused, used or expired.";
            Problem::new(Code::InvalidStatus, detail)
        })
    });
    let list = Coupons {
        template: id,
        user: user_id,
        status: status.transpose()?,
        period: Period::asked(from, to),
        now: app.clock.now(),
    };
    answer(&app, operator, id, &headers, limit, cursor.as_ref(), list).await
}
