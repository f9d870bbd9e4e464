//! The routes of the api.

use std::{
    sync::{Arc, LazyLock},
    time::Instant,
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use mysql_store::connect;
use tracing::Instrument;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    access::{self, Access},
    code::Code,
    connections::{Connection, OfAddress, arriving::BodyProgress, limits::Limits},
    console::{self, Console},
    http::{
        cors,
        extract::{self, BODY_BYTES_MAX},
        parameters::KnownParameters,
        request_checks::{self, DOCS_PATH},
        request_span::RequestSpan,
    },
    metrics::{OVERLOADED, REQUEST_SECONDS},
    openapi::{self, Document, docs_page},
    problem::Problem,
    routes::{
        audit::{self, idempotency},
        holds::{bans, cancel, confirm, late},
        operators::{
            api_keys,
            before_sale::{preview, readiness},
            claim_state, claim_story, console_session, dead_letters, desk, drain, expiry, findings,
            health, live, merchants, repair,
            reports::{report, timeseries},
            stock, stock_movements,
            templates::{self, clone, delete, edit, history, ledger, list, state_change, validity},
            whoami,
        },
        shop::{self, coupon_lock, order_redemption, page, redemption, rollback, validation},
        shopper::{claim_events, claim_poll, claims, coupon_use, coupons, my_templates},
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
        .routes(routes!(templates::create, list::list))
        .routes(routes!(templates::get, edit::edit, delete::delete))
        .routes(routes!(preview::preview))
        .routes(routes!(readiness::get))
        .routes(routes!(clone::clone))
        .routes(routes!(validity::progress))
        .routes(routes!(history::movements))
        .routes(routes!(ledger::get))
        .routes(routes!(stock::get))
        .routes(routes!(timeseries::get))
        .routes(routes!(report::get))
        .routes(routes!(stock_movements::create))
        .routes(routes!(claims::create, history::claims))
        .routes(routes!(history::coupons))
        .routes(routes!(repair::gate))
        .routes(routes!(drain::end))
        .routes(routes!(state_change::change_state))
        .routes(routes!(merchants::create, merchants::list))
        .routes(routes!(api_keys::create, api_keys::list))
        .routes(routes!(api_keys::revoke))
        .routes(routes!(api_keys::rotate))
        .routes(routes!(audit::list))
        .routes(routes!(dead_letters::begin))
        .routes(routes!(dead_letters::end))
        .routes(routes!(expiry::get))
        .routes(routes!(findings::list))
        .routes(routes!(findings::get))
        .routes(routes!(findings::accept))
        .routes(routes!(health::get))
        .routes(routes!(live::watch))
        .routes(routes!(whoami::get))
        .routes(routes!(console_session::begin, console_session::get, console_session::end))
        .routes(routes!(claim_state::get))
        .routes(routes!(claim_story::get))
        .routes(routes!(repair::coupons))
        .routes(routes!(repair::view))
        .routes(routes!(desk::grants::create))
        .routes(routes!(desk::coupons::find))
        .routes(routes!(desk::coupons::get))
        .routes(routes!(desk::changes::revoke))
        .routes(routes!(desk::changes::extend))
        .routes(routes!(desk::changes::replace))
        .routes(routes!(desk::search::search))
        .routes(routes!(desk::jobs::list))
        .routes(routes!(desk::jobs::get))
        .routes(routes!(desk::jobs::rows))
        .routes(routes!(desk::jobs::cancel))
        .routes(routes!(redemption::use_coupon))
        .routes(routes!(redemption::unuse_coupon))
        .routes(routes!(validation::validate))
        .routes(routes!(coupon_lock::lock))
        .routes(routes!(order_redemption::redeem))
        .routes(routes!(order_redemption::get))
        .routes(routes!(rollback::roll_back))
        .routes(routes!(confirm::confirm))
        .routes(routes!(cancel::cancel))
        .routes(routes!(late::list))
        .routes(routes!(late::refunded))
        .routes(routes!(bans::list))
        .routes(routes!(bans::get))
        .routes(routes!(bans::lift))
        .routes(routes!(claim_poll::get))
        .routes(routes!(claim_events::follow))
        .routes(routes!(coupons::list))
        .routes(routes!(coupons::get))
        .routes(routes!(coupon_use::use_coupon))
        .routes(routes!(coupon_use::unuse_coupon))
        .routes(routes!(my_templates::get))
        .routes(routes!(shop::templates::list))
        .routes(routes!(page::get))
}

/// Returns the router. Pages of these origins may call it too.
pub(crate) fn router(
    app: App,
    console: &Arc<Console>,
    allowed_origins: &[String],
    limits: Limits,
) -> Router {
    let (operations, described) = operations().split_for_parts();
    let known = Arc::new(KnownParameters::of(&described));
    // Built at the first request, since few processes get one.
    let document = Arc::new(LazyLock::new(move || Document::of(described)));
    let routes = operations
        .route(openapi::PATH, get(async move |headers: HeaderMap| document.answer(&headers)))
        .route(DOCS_PATH, get(docs_page::page))
        .route(docs_page::SCRIPT_PATH, get(docs_page::script))
        .merge(console::routes(console))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn_with_state(Bounds { limits, known }, bounded));
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
    let access = Access::of(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span = RequestSpan::begin(&mut request, route.as_ref().map(MatchedPath::as_str));
    let repeatable = route.as_ref().is_none_or(|route| {
        idempotency::may_be_repeated(&method, route.as_str(), request.headers())
    });
    let mut answer = access.within(next.run(request)).await;
    let took = started.elapsed();
    let status = answer.status();
    span.answered(status);
    drop(span);
    // Clients cannot make up labels: all unknown routes share one, and so do unknown methods.
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
    access.log(method, &route, status, took);
    metrics::histogram!(REQUEST_SECONDS.name, "method" => method, "route" => route, "status" => status.as_str().to_owned())
        .record(took.as_secs_f64());
    if answer.extensions().get::<Code>() == Some(&Code::Overloaded) {
        metrics::counter!(OVERLOADED.name).increment(1);
    }
    if let Some(unknown) = answer.extensions_mut().remove::<Problem>().filter(|_| !repeatable) {
        let answer_again = || unknown.without_retry().into_response();
        let (parts, body) = access.within_now(answer_again).into_parts();
        answer.headers_mut().remove(header::RETRY_AFTER);
        answer.headers_mut().extend(parts.headers);
        *answer.body_mut() = body;
    }
    request_checks::dress(answer.headers_mut());
    access.mark(answer.headers_mut());
    answer
}

/// The limits that [`bounded`] applies, all in one layer, because each layer costs every request some allocations.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    pub(crate) known: Arc<KnownParameters>,
}

/// Answers a request, within its limits. If the body was not read to its end, the server closes the connection; the
/// answer announces that, because a client that does not know it loses the next request that it sends there.
pub(crate) async fn bounded(
    State(bounds): State<Bounds>,
    request: Request,
    next: Next,
) -> Response {
    let (request, body) = BodyProgress::of(request);
    let mut answer = within(&bounds, request, next, &body).await.into_response();
    if !body.is_over() {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Checks a request, and limits how long it may take and how many its client may have under way.
async fn within(
    Bounds { limits, known }: &Bounds,
    mut request: Request,
    next: Next,
    body: &BodyProgress,
) -> Result<Response, Problem> {
    request_checks::check(&request)?;
    let _one_of_its_address = of_address(&request)?;
    known.check(&request)?;
    DefaultBodyLimit::max(BODY_BYTES_MAX).apply(&mut request);
    let span = tracing::info_span!(
        "request",
        request.id = access::current_id(),
        http.method = %request.method(),
        http.path = request.uri().path()
    );
    let most = if request.method() == Method::GET { limits.read } else { limits.request };
    // It is dropped wherever it waits, when its time is over or its client leaves.
    let answer = connect::abandonable(next.run(request).instrument(span));
    match tokio::time::timeout(most, answer).await {
        Ok(answer) => Ok(answer),
        // The client was slow, not the server.
        Err(_) if body.is_awaited() => Err(extract::incomplete()),
        Err(_) => {
            let detail = "The request took too long; whether it had an effect is unknown.";
            Err(Problem::new(Code::Timeout, detail).unknown())
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
        let detail =
            format!("Too many requests from {client} are under way. Send it again in a moment.");
        Problem::new(Code::TooManyAtOnce, detail)
    })
}
