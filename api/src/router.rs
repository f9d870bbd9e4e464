//! The routes of the api.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    body::HttpBody as _,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tracing::Instrument;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    code::Code,
    connections::{Connection, OfAddress, arriving::Awaited, limits::Limits},
    http::{
        cors,
        extract::{self, BODY_BYTES_MAX},
        request_checks::{self, DOCS_PATH},
        request_span::RequestSpan,
    },
    metrics::REQUEST_SECONDS,
    openapi::{self, Document, docs_page},
    problem::Problem,
    routes::{
        audit::{self, idempotency},
        operators::{
            api_keys, claim_state, dead_letters, expiry, merchants, repair, stock, stock_movements,
            templates::{self, edit, validity},
        },
        shop::{page, redemption},
        shopper::{claim_poll, claims, coupon_use, coupons},
    },
    state::App,
};

/// Methods in metrics. Any other is counted as `other`.
const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// Route label in metrics for requests that match no route.
const NO_ROUTE: &str = "none";

/// Returns every operation, each with its route and its description.
pub(crate) fn operations() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(templates::create, templates::list))
        .routes(routes!(templates::get, edit::edit))
        .routes(routes!(validity::progress))
        .routes(routes!(stock::get))
        .routes(routes!(stock_movements::create))
        .routes(routes!(claims::create))
        .routes(routes!(repair::gate))
        .routes(routes!(templates::change_state))
        .routes(routes!(merchants::create, merchants::list))
        .routes(routes!(api_keys::create, api_keys::list))
        .routes(routes!(api_keys::revoke))
        .routes(routes!(api_keys::rotate))
        .routes(routes!(audit::list))
        .routes(routes!(dead_letters::begin))
        .routes(routes!(dead_letters::end))
        .routes(routes!(expiry::get))
        .routes(routes!(claim_state::get))
        .routes(routes!(repair::coupons))
        .routes(routes!(repair::view))
        .routes(routes!(redemption::use_coupon))
        .routes(routes!(redemption::unuse_coupon))
        .routes(routes!(claim_poll::get))
        .routes(routes!(coupons::list))
        .routes(routes!(coupons::get))
        .routes(routes!(coupon_use::use_coupon))
        .routes(routes!(coupon_use::unuse_coupon))
        .routes(routes!(page::get))
}

/// Returns the router. Pages of these origins may call it too.
pub(crate) fn router(app: App, allowed_origins: &[String], limits: Limits) -> Router {
    let (operations, described) = operations().split_for_parts();
    let document = Arc::new(Document::of(described));
    let routes = operations
        .route(openapi::PATH, get(async move |headers: HeaderMap| document.answer(&headers)))
        .route(DOCS_PATH, get(docs_page::page))
        .route(docs_page::SCRIPT_PATH, get(docs_page::script))
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
    Problem::new(Code::NotFound, "There is no such path.")
}

async fn unknown_method() -> Problem {
    let detail = "The path is there, but not with this method.";
    Problem::new(Code::MethodNotAllowed, detail)
}

/// Measures a request, and adds the headers of every answer.
pub(crate) async fn counted(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span = RequestSpan::begin(&mut request, route.as_ref().map(MatchedPath::as_str));
    let repeatable = route.as_ref().is_none_or(|route| {
        idempotency::may_be_repeated(&method, route.as_str(), request.headers())
    });
    let mut answer = next.run(request).await;
    let seconds = started.elapsed().as_secs_f64();
    let status = answer.status();
    span.answered(status);
    drop(span);
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
    request_checks::dress(answer.headers_mut());
    answer
}

/// Checks a request, and limits how long it may take and how many its client may have under way.
pub(crate) async fn bounded(
    State(limits): State<Limits>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Err(problem) = request_checks::check(&request) {
        return Ok(refused(problem, !request.body().is_end_stream()));
    }
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
        Err(_) if body.is_so() => Err(extract::incomplete()),
        Err(_) => {
            let detail = "The request took too long; whether it had an effect is unknown.";
            Err(Problem::unavailable(Code::Timeout, detail).unknown())
        }
    }
}

/// Answers a request whose body, if there is one, is not read. The server closes the connection then, and a client that is
/// not told so loses the next request that it sends there.
fn refused(problem: Problem, has_body: bool) -> Response {
    let mut answer = problem.into_response();
    if has_body {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Takes one of the concurrent requests that a client may have through a proxy.
fn of_address(request: &Request) -> Result<Option<OfAddress>, Problem> {
    let Some(connection) = request.extensions().get::<Arc<Connection>>() else { return Ok(None) };
    let lines = request.headers().get_all("x-forwarded-for").iter();
    // A line that is not text can hide only addresses before it, which a client may have invented.
    let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
    connection.forwarded(lines.into_iter()).map_err(|client| {
        let detail =
            format!("Too many requests from {client} are under way. Send it again in a moment.");
        Problem::new(Code::TooManyAtOnce, detail).retry_after()
    })
}
