//! Sessions of the console: an operator shows a key once, and the browser keeps a sealed cookie in its place.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use coupon::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::{
        KeyHolder, Operator, SignedIn, cookie,
        session::{Begun, Session},
    },
    http::{
        instant::instant,
        schemas::{self, Id, Instant},
    },
    problem::Problem,
    state::App,
};

/// A session of the console, and the key that it stands for.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsoleSession, examples(json!({
    "csrf_token": "mMZ0oGV9pJqUqVJ3cHSVbnoLE0dOqPPW0qSOI0QAHRs", "key_id": "2123985066110484480",
    "name": "Till", "merchant_id": "2123985064051081216", "scopes": ["operate"], "is_on_call": false,
    "ends_at": "2026-11-27T20:00:00.000Z"
})))]
pub(crate) struct ConsoleSessionJson {
    /// What the page sends as `X-Csrf-Token` with each change. It is the same for the whole session, from any api.
    csrf_token: String,
    /// Null: the platform's own key.
    #[schema(value_type = Option<Id>, required = true)]
    key_id: Option<String>,
    /// The key's name; `platform` for the platform's own.
    name: String,
    #[schema(value_type = Id)]
    merchant_id: String,
    #[schema(value_type = Vec<schemas::Scope>)]
    scopes: Vec<&'static str>,
    /// Whether the key sees every merchant's templates and the health of the platform.
    is_on_call: bool,
    /// When the session ends: twelve hours after it began, or with its key.
    #[schema(value_type = Instant)]
    ends_at: String,
}

/// `POST /v1/console/session`: for any key that is accepted, whatever its scopes.
#[utoipa::path(
    post,
    path = "/v1/console/session",
    operation_id = "begin_console_session",
    tag = "Keys",
    summary = "Sign in to the console",
    description = "The answer sets a cookie, which later requests may have in place of `X-Api-Key`: with \
        `X-Csrf-Token` if they change something, and from pages of this server only. While MySQL is away, a key is \
        accepted if it was within the last quarter of an hour.",
    security(("operator_key" = [])),
    responses((status = 201, description = "The session.", body = ConsoleSessionJson)),
    extensions(("x-problems" = json!("OVERLOADED")))
)]
pub(crate) async fn begin(
    State(app): State<App>,
    KeyHolder(operator): KeyHolder,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Begun { session, cookie } = app.auth.begin_session(operator)?;
    let body = told(&app, operator, &session).await?;
    Ok(with_cookie((StatusCode::CREATED, Json(body)), cookie::set(&headers, &cookie)))
}

/// `GET /v1/console/session`
#[utoipa::path(
    get,
    path = "/v1/console/session",
    operation_id = "get_console_session",
    tag = "Keys",
    summary = "Who is signed in to the console",
    security(("console_session" = [])),
    responses((status = 200, description = "The session.", body = ConsoleSessionJson)),
    extensions(("x-problems" = json!("CROSS_SITE")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    SignedIn { operator, session }: SignedIn,
) -> Result<Json<ConsoleSessionJson>, Problem> {
    Ok(Json(told(&app, operator, &session).await?))
}

/// `DELETE /v1/console/session`: the browser forgets the cookie.
#[utoipa::path(
    delete,
    path = "/v1/console/session",
    operation_id = "end_console_session",
    tag = "Keys",
    summary = "Sign out of the console",
    description = "Removes the cookie. What was copied from it before serves until the session ends: revoke or rotate the key to \
        end it at once.",
    security(("console_session" = [])),
    params(("X-Csrf-Token" = String, Header, description = "The session's `csrf_token`.")),
    responses((status = 204, description = "The cookie is removed.")),
    extensions(("x-problems" = json!("CROSS_SITE")))
)]
pub(crate) async fn end(SignedIn { .. }: SignedIn, headers: HeaderMap) -> Response {
    with_cookie(StatusCode::NO_CONTENT, cookie::removed(&headers))
}

async fn told(
    app: &App,
    operator: Operator,
    session: &Session,
) -> Result<ConsoleSessionJson, Problem> {
    let ends_at = session.ends_at();
    let ends_at = operator.ends_at.map_or(ends_at, |of_key| of_key.min(ends_at));
    Ok(ConsoleSessionJson {
        csrf_token: app.auth.csrf_token(session),
        key_id: operator.key_id.map(|id| id.to_string()),
        name: app.auth.name_of(operator).await?,
        merchant_id: operator.merchant_id.to_string(),
        scopes: operator.scopes().iter().map(Scope::word).collect(),
        is_on_call: operator.is_on_call(),
        ends_at: instant(ends_at),
    })
}

fn with_cookie(answer: impl IntoResponse, cookie: Option<HeaderValue>) -> Response {
    let mut answer = answer.into_response();
    answer.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
    answer
}
