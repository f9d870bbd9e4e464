//! Top-ups and cuts: `POST /v1/templates/{id}/stock-movements`.
//!
//! MySQL stores the movement first, with the key of its request, so a repeated request moves nothing twice. The gate is
//! then updated at once; if that fails, it is updated from the movement's topic or by the keeper.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use coupon::{TemplateId, limit, text};
use mysql_store::{
    connect,
    stock::{self, Moved, NewMovement, Recorded},
    template,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        etag::IfMatch,
        extract::{Body, PathId},
        headers,
        schemas::{self, Id, RequestId},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::{self, Action, idempotency::REPLAYED},
        operators::templates::{self, expected::confirmed, target},
    },
    state::App,
};

/// Longest reason, in characters: the length of the `varchar(200)` column.
pub(crate) const REASON_CHARS_MAX: usize = 200;

/// Request to change a template's stock.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMovement, examples(json!({ "delta": 500, "reason": "The second batch is printed." })))]
pub(crate) struct MovementRequest {
    /// Change of the total, not 0. A cut is negative.
    #[schema(minimum = -1000000000, maximum = 1000000000)]
    delta: i64,
    /// The reason, for people who read the movements.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    reason: String,
    /// The template's name, to confirm a cut; or send `If-Match`. A top-up needs neither.
    confirm: Option<String>,
}

/// A stock movement. It consists of values that never change: a replay has the same bytes.
#[derive(Serialize, ToSchema)]
#[schema(as = Movement, examples(json!({
    "template_id": "2123985067360387072", "seq": 2, "delta": 500,
    "reason": "The second batch is printed.", "total": 1500, "stock": 1373
})))]
struct MovementBody {
    #[schema(value_type = Id)]
    template_id: String,
    /// Number of the movement, without gaps. 1 is the template's creation.
    seq: i64,
    delta: i64,
    reason: String,
    /// The total after the movement.
    total: i64,
    /// The stock after the movement.
    stock: i64,
}

/// `POST /v1/templates/{id}/stock-movements`
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/stock-movements",
    operation_id = "move_stock",
    tag = "Stock",
    summary = "Top up or cut a template's stock",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("Idempotency-Key" = RequestId, Header, description = "A new one for each movement, the same one with a retry."),
        ("If-Match" = Option<schemas::IfMatch>, Header, description = "The `ETag` of the template that the operator has seen. A cut needs it, or `confirm`.")
    ),
    request_body = MovementRequest,
    responses(
        (status = 201, description = "Moved. The same key again is the same answer.", body = MovementBody,
            headers(("Idempotency-Replayed" = String, description = "`true`: the answer of an earlier request.")))
    ),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND IDEMPOTENCY_KEY_MISSING IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED \
         INVALID_MOVEMENT INSUFFICIENT_STOCK TOTAL_TOO_LARGE HOURLY_QUOTA_EXCEEDED \
         CONFIRMATION_REQUIRED IF_MATCH_INVALID PRECONDITION_FAILED OVERLOADED"
    )))
)]
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
        return Err(Problem::new(Code::IdempotencyKeyMissing, detail));
    }
    let request_id = headers::request_id(&headers, &template)?;
    let if_match = IfMatch::of(&headers)?;
    validate(&request)?;
    let MovementRequest { delta, reason, confirm } = request;
    let is_meant =
        if delta < 0 { confirmed(&template.name, confirm.as_deref(), &if_match) } else { Ok(()) };
    let actor = operator.actor();
    let new = NewMovement { request_id: &request_id, delta, reason: &reason, actor: &actor };
    let apply = || apply(&app, operator, id, &new, &if_match, &is_meant);
    let moved = connect::within(connect::retried(apply, Problem::is_contended)).await?;
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

/// Adds the movement. A replay is already recorded, so neither the template's version, nor its confirmation, nor the
/// audit record matters to it.
async fn apply(
    app: &App,
    operator: Operator,
    id: TemplateId,
    new: &NewMovement<'_>,
    if_match: &IfMatch,
    is_meant: &Result<(), Problem>,
) -> Result<Moved, Problem> {
    let mut transaction = connect::begin(&app.pool).await?;
    let version = if if_match.is_given() {
        template::hold_version(&mut transaction, id).await?.ok_or_else(unknown_template)?
    } else {
        0
    };
    let moved = stock::add_movement(&mut transaction, id, new, app.clock.now()).await?;
    if let Moved::Recorded(Recorded { seq, total, stock }) = moved {
        if_match.check(version)?;
        is_meant.clone()?;
        let NewMovement { delta, reason, .. } = *new;
        let action = Action {
            merchant_id: operator.merchant_id,
            name: "stock.move".to_owned(),
            target: target(id),
            before: Some(json!({ "total": total - delta, "stock": stock - delta })),
            after: Some(json!({
                "seq": seq, "delta": delta, "reason": reason, "total": total, "stock": stock,
            })),
        };
        audit::record(app, operator, &mut transaction, action).await?;
        app.commit(transaction).await?;
    }
    Ok(moved)
}

fn validate(request: &MovementRequest) -> Result<(), Problem> {
    let invalid = |field: &str, problem: String| {
        Err(Problem::new(Code::InvalidMovement, format!("{field}: {problem}."))
            .with("field", field))
    };
    let most = limit::STOCK_MAX;
    if request.delta == 0 || !(-most..=most).contains(&request.delta) {
        return invalid("delta", format!("use -{most} to {most}, and not 0"));
    }
    text::wrong(&request.reason, REASON_CHARS_MAX).map_or(Ok(()), |wrong| invalid("reason", wrong))
}

/// Returns the movement with this key, and whether it was there before; or the problem.
pub(crate) fn recorded(moved: Moved) -> Result<(Recorded, bool), Problem> {
    match moved {
        Moved::Recorded(recorded) => Ok((recorded, false)),
        Moved::Replayed(recorded) => Ok((recorded, true)),
        Moved::KeyReused => Err(Problem::new(
            Code::IdempotencyKeyReused,
            "This `Idempotency-Key` was used for another movement. Send a new key.",
        )),
        Moved::TooLittleLeft { stock } => {
            let detail = format!("Only {stock} are left. Cut at most as many.");
            Err(Problem::new(Code::InsufficientStock, detail).with("left", stock))
        }
        Moved::TooMuch { total } => {
            let most = limit::STOCK_MAX;
            let detail = format!("The total is {total}, and cannot be more than {most}.");
            Err(Problem::new(Code::TotalTooLarge, detail).with("total", total))
        }
        Moved::NoTemplate => Err(unknown_template()),
    }
}
