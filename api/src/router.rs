//! The routes of the api.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use tracing::Instrument;

use crate::{
    api_keys,
    arriving::Awaited,
    audit,
    body::{self, BODY_BYTES_MAX},
    claim_poll, claim_state, claims,
    connections::{Connection, OfAddress},
    cors, coupon_use, coupons, dead_letters, docs_page, expiry, front,
    hop::Hop,
    idempotency,
    limits::Limits,
    merchants,
    metrics::REQUEST_SECONDS,
    openapi,
    problem::Problem,
    redemption, repair, shop,
    state::App,
    stock, stock_movements, template_edit, templates, validity,
};

/// Methods in metrics. Any other is counted as `other`.
const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// Route label in metrics for requests that match no route.
const NO_ROUTE: &str = "none";

/// Returns the router. Pages of these origins may call it too.
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
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(limits, bounded));
    // Outside the layers that refuse, so that a page that may call can also read why it was refused.
    let routes = match cors::layer(allowed_origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes.layer(middleware::from_fn(counted)).with_state(app)
}

async fn unknown_path() -> Problem {
    Problem::not_found("NOT_FOUND", "There is no such path.")
}

async fn unknown_method() -> Problem {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let detail = "The path is there, but not with this method.";
    Problem::new(status, "METHOD_NOT_ALLOWED", "Method not allowed", detail)
}

/// Measures a request, and adds the headers of every answer.
pub(crate) async fn counted(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let hop = Hop::begin(&mut request, route.as_ref().map(MatchedPath::as_str));
    let repeatable = route.as_ref().is_none_or(|route| {
        idempotency::may_be_repeated(&method, route.as_str(), request.headers())
    });
    let mut answer = next.run(request).await;
    let seconds = started.elapsed().as_secs_f64();
    let status = answer.status();
    hop.answered(status);
    drop(hop);
    // Clients cannot make up labels: what is not ours has one name.
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
    metrics::histogram!(REQUEST_SECONDS, "method" => method, "route" => route, "status" => status.as_str().to_owned())
        .record(seconds);
    if let Some(unknown) = answer.extensions_mut().remove::<Problem>().filter(|_| !repeatable) {
        let (parts, body) = unknown.without_retry().into_response().into_parts();
        answer.headers_mut().remove(header::RETRY_AFTER);
        answer.headers_mut().extend(parts.headers);
        *answer.body_mut() = body;
    }
    front::dress(answer.headers_mut());
    answer
}

/// Checks a request, and limits how long it may take and how many its client may have under way.
pub(crate) async fn bounded(
    State(limits): State<Limits>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    front::check(&request)?;
    let _one_of_its_address = of_address(&request)?;
    let span = tracing::debug_span!(
        "request",
        http.method = %request.method(),
        http.path = request.uri().path()
    );
    let most = if request.method() == Method::GET { limits.read } else { limits.request };
    let (request, body) = Awaited::of(request);
    match tokio::time::timeout(most, next.run(request).instrument(span)).await {
        Ok(answer) => Ok(answer),
        // The client was slow, not the server.
        Err(_) if body.is_so() => Err(body::incomplete()),
        Err(_) => {
            let detail = "The request took too long; whether it had an effect is unknown.";
            Err(Problem::unavailable("TIMEOUT", detail).unknown())
        }
    }
}

/// Takes one of the concurrent requests that a client may have through a proxy.
fn of_address(request: &Request) -> Result<Option<OfAddress>, Problem> {
    let Some(connection) = request.extensions().get::<Arc<Connection>>() else { return Ok(None) };
    let lines = request.headers().get_all("x-forwarded-for").iter();
    // A line that is not text can hide only addresses before it, which a client may have invented.
    let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
    connection.forwarded(lines.into_iter()).map_err(|client| {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let detail =
            format!("Too many requests from {client} are under way. Send it again in a moment.");
        Problem::new(status, "TOO_MANY_AT_ONCE", "Too many requests", detail).retry_after()
    })
}
