//! Top-ups and cuts: `POST /v1/templates/{id}/stock-movements`.
//!
//! MySQL has the movement first, with the key of its request, so a request sent again moves nothing
//! twice. The gate hears of it at once; if it cannot, the movement's topic or the keeper tells it.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use coupon::{TemplateId, limit};
use mysql_store::{
    connect,
    stock::{self, Moved, NewMovement, Recorded},
};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::{
    auth::Operator,
    body::{Body, PathId},
    claims::unknown_template,
    headers,
    problem::Problem,
    state::App,
    templates::{self, ACTOR},
};

/// Longest reason, in characters: the `varchar(200)` that holds it.
const REASON_CHARS_MAX: usize = 200;

/// Tells a client that the answer is that of an earlier request with the same key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MovementRequest {
    /// By how much the total changes; a cut is negative.
    delta: i64,
    reason: String,
}

/// A movement, made of columns that never change: a replay is equal byte by byte.
#[derive(Serialize)]
struct MovementBody {
    template_id: String,
    /// 1 is the template's creation; no gaps.
    seq: i64,
    delta: i64,
    reason: String,
    /// The total after it.
    total: i64,
    /// What was left after it.
    stock: i64,
}

/// `POST /v1/templates/{id}/stock-movements`
pub(crate) async fn create(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
    Body(request): Body<MovementRequest>,
) -> Result<Response, Problem> {
    let template = templates::owned(&app, operator, id).await?;
    if !headers.contains_key("idempotency-key") {
        let detail =
            "Send a new `Idempotency-Key` with each movement, and the same one with a retry.";
        return Err(Problem::malformed("IDEMPOTENCY_KEY_MISSING", detail));
    }
    let request_id = headers::request_id(&headers, &template)?;
    validate(&request)?;
    let MovementRequest { delta, reason } = request;
    let new = NewMovement { request_id: &request_id, delta, reason: &reason, actor: ACTOR };
    let mut connection = connect::acquire(&app.pool).await?;
    let moved = stock::add_movement(&mut connection, id, &new, app.clock.now());
    let moved = connect::within(moved).await?;
    drop(connection);
    let (recorded, replayed) = recorded(moved)?;
    info!(template.id = %id, seq = recorded.seq, delta, replayed, "moved a template's stock");
    if let Err(error) = app.gates.catch_up(id).await {
        let error = runtime::report(&error);
        warn!(template.id = %id, error, "the gate will hear of a movement later");
    }
    let Recorded { seq, total, stock } = recorded;
    let body = MovementBody { template_id: id.to_string(), seq, delta, reason, total, stock };
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn validate(request: &MovementRequest) -> Result<(), Problem> {
    let invalid = |field: &str, problem: String| {
        Err(Problem::invalid("INVALID_MOVEMENT", format!("{field}: {problem}."))
            .with("field", field))
    };
    let most = limit::STOCK_MAX;
    if request.delta == 0 || !(-most..=most).contains(&request.delta) {
        return invalid("delta", format!("use -{most} to {most}, and not 0"));
    }
    if request.reason.trim().is_empty() || request.reason.chars().count() > REASON_CHARS_MAX {
        return invalid("reason", format!("use 1 to {REASON_CHARS_MAX} characters"));
    }
    Ok(())
}

/// The movement that stands under the key, and whether it stood before; or why there is none.
fn recorded(moved: Moved) -> Result<(Recorded, bool), Problem> {
    match moved {
        Moved::Recorded(recorded) => Ok((recorded, false)),
        Moved::Replayed(recorded) => Ok((recorded, true)),
        Moved::KeyReused => Err(Problem::invalid(
            "IDEMPOTENCY_KEY_REUSED",
            "This `Idempotency-Key` was used for another movement. Send a new key.",
        )),
        Moved::TooLittleLeft { stock } => {
            let detail = format!("Only {stock} are left. Cut at most as many.");
            Err(Problem::conflict("INSUFFICIENT_STOCK", "Less is left", detail).with("left", stock))
        }
        Moved::TooMuch { total } => {
            let most = limit::STOCK_MAX;
            let detail = format!("The total is {total}, and cannot be more than {most}.");
            Err(Problem::conflict("TOTAL_TOO_LARGE", "Too many", detail).with("total", total))
        }
        Moved::NoTemplate => Err(unknown_template()),
    }
}
