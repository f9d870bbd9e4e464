//! Every route.

use std::time::{Duration, Instant};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    http::{Method, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use mysql_store::connect;
use runtime::trace::{self, Kind, Span};
use tracing::Instrument;

use crate::{
    api_keys, audit, body::BODY_BYTES_MAX, claims, cors, coupon_use, coupons, docs_page, expiry,
    front, headers, merchants, metrics::REQUEST_SECONDS, openapi, problem::Problem, repair, shop,
    state::App, stock, stock_movements, template_edit, templates, validity,
};

/// How long any request may take; every route has shorter waits of its own.
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// How long one that only reads may take: a server that says nothing is not waited for any longer.
const READ_MAX: Duration = connect::ANSWER_MAX;

/// The methods that requests are counted by.
const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// What a request to no path of ours is counted under.
const NO_ROUTE: &str = "none";

/// The route of claims: what follows them hangs below their span, so their handler begins it.
const CLAIMS: &str = "/v1/templates/{id}/claims";

/// Every route, for callers from the pages of these origins too.
pub(crate) fn router(app: App, allowed_origins: &[String]) -> Router {
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
        .route("/v1/expiry", get(expiry::get))
        .route("/v1/landed-claims/{id}", get(repair::claim))
        .route("/v1/users/{id}/coupons", get(repair::coupons))
        .route("/v1/users/{id}/view-rebuild", post(repair::view))
        .route("/v1/claims/{id}", get(claims::get))
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
    routes.layer(middleware::from_fn(bounded)).with_state(app)
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
async fn bounded(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span =
        tracing::debug_span!("request", http.method = %method, http.path = request.uri().path());
    let mut hop = begin_hop(&request, route.as_ref().map(MatchedPath::as_str));
    let most = if method == Method::GET { READ_MAX } else { REQUEST_MAX };
    let answered = match front::check(&request) {
        Ok(()) => tokio::time::timeout(most, next.run(request).instrument(span)).await,
        Err(problem) => Ok(problem.into_response()),
    };
    let seconds = started.elapsed().as_secs_f64();
    let status = answered.as_ref().map_or(503, |response| response.status().as_u16());
    hop.set("http.response.status_code", i64::from(status));
    drop(hop);
    // Nobody can make up labels: what is not ours has one name.
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
    metrics::histogram!(REQUEST_SECONDS, "method" => method, "route" => route, "status" => status.to_string())
        .record(seconds);
    let mut answer = answered.unwrap_or_else(|_| {
        let detail = "The request took too long; whether it had an effect is unknown.";
        Problem::unavailable("TIMEOUT", detail).into_response()
    });
    front::dress(answer.headers_mut());
    answer
}

/// The span of a request, in its caller's trace.
fn begin_hop(request: &Request, route: Option<&str>) -> Span {
    if !trace::is_on() || route == Some(CLAIMS) {
        return Span::default();
    }
    let method = request.method().as_str();
    let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
    let mut hop = trace::begin(name, Kind::Server, headers::trace_parent(request.headers()));
    hop.set("http.request.method", method.to_owned());
    hop.set("url.path", request.uri().path().to_owned());
    if let Some(route) = route {
        hop.set("http.route", route.to_owned());
    }
    hop
}
