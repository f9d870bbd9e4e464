//! The end of a drain by hand: `POST /v1/templates/{id}/drain-end`.
//!
//! A lost gate is loaded only after every claim that it had queued has its outcome. This wait has no time limit. An
//! operator may end it if the cause cannot be removed: claims still in the queue are then too late, and their users
//! learn that they are lost. The process that waits sees it in MySQL, and loads the gate.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
};
use coupon::{Epoch, Scope, Template, TemplateId};
use mysql_store::{connect, stock};
use redis_gate::Meta;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::warn;
use utoipa::ToSchema;

use crate::{
    auth::{AnyOperator, Operator},
    code::Code,
    http::{
        etag::IfMatch,
        extract::{Body, PathId},
        schemas::{self, Id, RequestId},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::{
            self, Action,
            idempotency::{Answer, Begun, Known, Once},
        },
        operators::templates::{self, expected::confirmed},
    },
    state::App,
};

/// Request to end a drain.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DrainEnd, examples(json!({ "confirm": "A sale" })))]
pub(crate) struct DrainRequest {
    /// The template's name, to confirm it; or send `If-Match`.
    confirm: Option<String>,
}

/// A drain that was ended.
#[derive(Serialize, ToSchema)]
#[schema(as = EndedDrain, examples(json!({ "template_id": "2123985067360387072", "epoch": 4 })))]
struct DrainBody {
    #[schema(value_type = Id)]
    template_id: String,
    /// The epoch under which the gate is loaded now. Nothing that was queued under an older one can land.
    epoch: i64,
}

/// `POST /v1/templates/{id}/drain-end`: gives up what users were promised, so it is for those on call and for admins.
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/drain-end",
    operation_id = "end_drain",
    tag = "Operations",
    summary = "Load a gate without waiting for its queue, which is given up",
    description = "For the scope `admin`; for any merchant's templates the platform's own key and the scope `emergency`.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("If-Match" = Option<schemas::IfMatch>, Header, description = "The `ETag` of the template that the operator has seen. It, or `confirm`, is needed."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request has the same answer.")
    ),
    request_body = Option<DrainRequest>,
    responses((status = 200, description = "The wait is over, and what was queued is lost.", body = DrainBody)),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND NO_DRAIN CONFIRMATION_REQUIRED IF_MATCH_INVALID PRECONDITION_FAILED GATE_UNAVAILABLE \
         HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn end(
    State(app): State<App>,
    AnyOperator(operator): AnyOperator,
    once: Once,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
    Body(request): Body<DrainRequest>,
) -> Result<Answer, Problem> {
    // An operator on call may end it for every merchant's templates.
    if !operator.is_on_call() {
        operator.needs(Scope::Admin)?;
    }
    let once = once.asking(&request);
    let template = templates::seen(&app, operator, id).await?;
    if let Some(answer) = once.answered(&app, operator).await? {
        return Ok(answer);
    }
    let if_match = IfMatch::of(&headers)?;
    if_match.check(template.version)?;
    confirmed(&template.name, request.confirm.as_deref(), &if_match)?;
    let epoch = match waiting(&app, id).await {
        Err(refused) if refused.code() == Code::NoDrain => {
            return once.answered_or(&app, operator, refused).await;
        }
        epoch => epoch?,
    };
    let end = || end_once(&app, operator, &once, &template, epoch);
    connect::within(connect::retried(end, Problem::is_contended)).await
}

/// Returns MySQL's epoch, unless the gate is open: while an older one still admits, its claims are not given up. A gate
/// that was lost again during the wait admits nothing either, and neither does one that cannot be read.
async fn waiting(app: &App, id: TemplateId) -> Result<Epoch, Problem> {
    let epoch = templates::stock(app, id).await?.epoch;
    let meta = match app.gates.gate().meta(id).await {
        Err(error) if error.is_of_keys() => None,
        meta => meta.map_err(|error| {
            let error = runtime::report(&error);
            warn!(template.id = %id, error, "whether a gate waits for its queue is unknown");
            let detail = "The gate's Redis did not answer. Send the request again.";
            Problem::new(Code::GateUnavailable, detail)
        })?,
    };
    if meta.as_ref().is_some_and(Meta::is_open) {
        return Err(no_drain());
    }
    Ok(epoch)
}

async fn end_once(
    app: &App,
    operator: Operator,
    once: &Once,
    template: &Template,
    epoch: Epoch,
) -> Result<Answer, Problem> {
    let id = template.id;
    let Begun { mut transaction, known } = once.begin(app, operator).await?;
    if let Known::Answer(answer) = known {
        return Ok(answer);
    }
    let before = stock::queue_facts(&mut transaction, id).await?.ok_or_else(unknown_template)?;
    if !stock::end_drain(&mut transaction, id, epoch).await? {
        return Err(no_drain());
    }
    let action = Action {
        merchant_id: template.merchant_id,
        name: "gate.end_drain".to_owned(),
        target: templates::target(id),
        before: Some(json!({ "queued_epoch": before.queued_epoch.0 })),
        after: Some(json!({ "queued_epoch": epoch.0 })),
    };
    audit::record(app, operator, &mut transaction, action).await?;
    let body = DrainBody { template_id: id.to_string(), epoch: epoch.0 };
    let answer = Answer::new(StatusCode::OK, &body);
    once.end(operator, &mut transaction, &answer).await?;
    app.commit(transaction).await?;
    warn!(template.id = %id, gate.epoch = %epoch, "an operator gave up what a gate had queued");
    Ok(answer)
}

fn no_drain() -> Problem {
    let detail = "No gate of this template waits for its queue: none was lost, the wait is over, or it has not begun.";
    Problem::new(Code::NoDrain, detail)
}
