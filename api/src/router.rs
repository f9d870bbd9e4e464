//! Every route.

use std::time::Instant;

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{Method, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use tracing::Instrument;

use crate::{
    api_keys, audit, body::BODY_BYTES_MAX, claim_poll, claim_state, claims, cors, coupon_use,
    coupons, dead_letters, docs_page, expiry, front, hop::Hop, limits::Limits, merchants,
    metrics::REQUEST_SECONDS, openapi, problem::Problem, redemption, repair, shop, state::App,
    stock, stock_movements, template_edit, templates, validity,
};

/// The methods that requests are counted by.
const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// What a request to no path of ours is counted under.
const NO_ROUTE: &str = "none";

/// Every route, for callers from the pages of these origins too.
pub(crate) fn router(app: App, allowed_origins: &[String], limits: Limits) -> Router {
    let routes = Router::new()
        .route("/v1/templates", post(templates::create).get(templates::list))
        .route("/v1/templates/{id}", get(templates::get).patch(template_edit::edit))
        .route("/v1/templates/{id}/validity-move", get(validity::progress))
        .route("/v1/templates/{id}/stock", get(stock::get))
        .route("/v1/templates/{id}/stock-movements", post(stock_movements::create))
        .route("/v1/templates/{id}/claims", post(claims::create))
        .route("/v1/templates/{id}/gate-rebuild", post(repair::gate))
        .route("/v1/templates/{id}/{verb}", post(templates::change_state))
        .route("/v1/merchants", post(merchants::create).get(merchants::list))
        .route("/v1/api-keys", post(api_keys::create).get(api_keys::list))
        .route("/v1/api-keys/{id}", delete(api_keys::revoke))
        .route("/v1/api-keys/{id}/rotate", post(api_keys::rotate))
        .route("/v1/audit", get(audit::list))
        .route("/v1/dead-letter-replays", post(dead_letters::begin))
        .route("/v1/dead-letter-replays/{id}/end", post(dead_letters::end))
        .route("/v1/expiry", get(expiry::get))
        .route("/v1/claim-states/{id}", get(claim_state::get))
        .route("/v1/users/{id}/coupons", get(repair::coupons))
        .route("/v1/users/{id}/view-rebuild", post(repair::view))
        .route("/v1/coupons/{id}/use", post(redemption::use_coupon))
        .route("/v1/coupons/{id}/unuse", post(redemption::unuse_coupon))
        .route("/v1/claims/{id}", get(claim_poll::get))
        .route("/v1/me/coupons", get(coupons::list))
        .route("/v1/me/coupons/{id}", get(coupons::get))
        .route("/v1/me/coupons/{id}/use", post(coupon_use::use_coupon))
        .route("/v1/me/coupons/{id}/unuse", post(coupon_use::unuse_coupon))
        .route("/v1/shop/templates/{id}", get(shop::get))
        .route("/openapi.json", get(openapi::get))
        .route("/docs", get(docs_page::page))
        .route("/docs/openapi-explorer-2.4.820.min.js", get(docs_page::script))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let routes = match cors::layer(allowed_origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes.layer(middleware::from_fn_with_state(limits, bounded)).with_state(app)
}

async fn unknown_path() -> Problem {
    Problem::not_found("NOT_FOUND", "There is no such path.")
}

async fn unknown_method() -> Problem {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let detail = "The path is there, but not with this method.";
    Problem::new(status, "METHOD_NOT_ALLOWED", "Method not allowed", detail)
}

/// Checks and bounds a request, counts it, and adds what every answer carries.
pub(crate) async fn bounded(
    State(limits): State<Limits>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span =
        tracing::debug_span!("request", http.method = %method, http.path = request.uri().path());
    let hop = Hop::begin(&mut request, route.as_ref().map(MatchedPath::as_str));
    let most = if method == Method::GET { limits.read } else { limits.request };
    let answered = match front::check(&request) {
        Ok(()) => tokio::time::timeout(most, next.run(request).instrument(span)).await,
        Err(problem) => Ok(problem.into_response()),
    };
    let seconds = started.elapsed().as_secs_f64();
    let status = answered.as_ref().map_or(StatusCode::SERVICE_UNAVAILABLE, Response::status);
    hop.answered(status);
    drop(hop);
    // Nobody can make up labels: what is not ours has one name.
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
    metrics::histogram!(REQUEST_SECONDS, "method" => method, "route" => route, "status" => status.as_str().to_owned())
        .record(seconds);
    let mut answer = answered.unwrap_or_else(|_| {
        let detail = "The request took too long; whether it had an effect is unknown.";
        Problem::unavailable("TIMEOUT", detail).into_response()
    });
    front::dress(answer.headers_mut());
    answer
}
