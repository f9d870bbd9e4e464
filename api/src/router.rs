//! Every route.

use std::time::Duration;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{Method, StatusCode},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use mysql_store::connect;
use tracing::Instrument;

use crate::{
    claims, coupons, expiry, problem::Problem, state::App, stock, stock_movements, templates,
    validity,
};

/// Largest body, in bytes: a template with every field filled is a tenth of this.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long any request may take; every route has shorter waits of its own.
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// How long one that only reads may take: a server that says nothing is not waited for any longer.
const READ_MAX: Duration = connect::ANSWER_MAX;

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/v1/templates", post(templates::create).get(templates::list))
        .route("/v1/templates/{id}", get(templates::get).patch(validity::change))
        .route("/v1/templates/{id}/validity-move", get(validity::progress))
        .route("/v1/templates/{id}/stock", get(stock::get))
        .route("/v1/templates/{id}/stock-movements", post(stock_movements::create))
        .route("/v1/templates/{id}/claims", post(claims::create))
        .route("/v1/templates/{id}/{verb}", post(templates::change_state))
        .route("/v1/expiry", get(expiry::get))
        .route("/v1/claims/{id}", get(claims::get))
        .route("/v1/me/coupons", get(coupons::list))
        .route("/v1/me/coupons/{id}", get(coupons::get))
        .route("/v1/me/coupons/{id}/use", post(coupons::use_coupon))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(app.clone(), bounded))
        .with_state(app)
}

async fn unknown_path() -> Problem {
    Problem::not_found("NOT_FOUND", "There is no such path.")
}

async fn unknown_method() -> Problem {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let detail = "The path is there, but not with this method.";
    Problem::new(status, "METHOD_NOT_ALLOWED", "Method not allowed", detail)
}

/// Bounds the time of a request, and counts it.
async fn bounded(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let started = app.clock.now();
    let method = request.method().clone();
    let span =
        tracing::debug_span!("request", http.method = %method, http.path = request.uri().path());
    let most = if method == Method::GET { READ_MAX } else { REQUEST_MAX };
    let answered = tokio::time::timeout(most, next.run(request).instrument(span)).await;
    let seconds = (app.clock.now() - started).as_seconds_f64();
    let status = answered.as_ref().map_or(503, |response| response.status().as_u16());
    metrics::histogram!("api_request_seconds", "method" => method.to_string(), "status" => status.to_string())
        .record(seconds);
    answered.map_err(|_| {
        let detail = "The request took too long; whether it had an effect is unknown.";
        Problem::unavailable("TIMEOUT", detail)
    })
}
