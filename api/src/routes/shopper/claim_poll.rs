//! `GET /v1/claims/{id}`: where a user looks up a claim that was not answered in time, or follows one that was accepted.
//!
//! With its receipt a queued claim is never "not found": it has its outcome, or is on its way. MySQL is asked each time,
//! whatever this process knows of the queue, so an answer never goes back behind one of another process.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use coupon::{ClaimId, TemplateId, UserId};
use landing::claims::fate::{Asker, ClaimQuery, Fate, FateError, QueuedFate, fate, queued_fate};
use mysql_store::look_up::ClaimFate;
use serde::{Deserialize, Serialize};

use crate::{
    access,
    auth::{User, rate_limit::seconds_to_wait},
    code::Code,
    http::{
        extract::{Params, PathId},
        schemas::Id,
    },
    problem::Problem,
    receipt::{Owner, Receipt},
    routes::shopper::waiting::{FoundBody, WaitingBody, with_retry_after},
    state::App,
};

/// A claim that is still being processed, if it was asked for without a receipt.
#[derive(Serialize)]
struct PendingBody {
    status: &'static str,
}

#[derive(Deserialize)]
pub(crate) struct PollParams {
    template: Option<TemplateId>,
    receipt: Option<String>,
}

/// `GET /v1/claims/{id}?template=&receipt=`
#[utoipa::path(
    get,
    path = "/v1/claims/{id}",
    operation_id = "get_claim",
    tag = "Claims",
    summary = "Look for a claim that was not answered, or waits in a queue",
    description = "404 is definite: the claim did not land and never will. With its receipt a claim is never 404.",
    security(("token" = [])),
    params(
        ("id" = Id, Path, description = "The claim, as `Location` and `poll` have it."),
        ("template" = Option<Id>, Query, description = "Its template, as `Location` and `poll` have it. Needed as long as the claim has not landed."),
        ("receipt" = Option<String>, Query, description = "The receipt of a queued claim, as its `Location` has it.")
    ),
    responses(
        (status = 200, description = "It has its outcome.", body = FoundBody),
        (status = 202, description = "It is on its way: look again.", body = WaitingBody,
            headers(("Retry-After" = u32, description = "With a receipt: after how many seconds to look again.")))
    ),
    extensions(("x-problems" = json!("RATE_LIMITED CLAIM_NOT_FOUND TEMPLATE_NEEDED RECEIPT_INVALID TOO_MANY_LOOKUPS GATE_UNAVAILABLE OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<PollParams>,
) -> Response {
    app.read_limit.limited(user, found(&app, user, id, params)).await
}

async fn found(
    app: &App,
    user: UserId,
    id: ClaimId,
    params: PollParams,
) -> Result<Response, Problem> {
    access::note_claim(id);
    if let Some(receipt) = &params.receipt {
        let template = params.template.ok_or_else(template_needed)?;
        return followed(app, Owner { template, user, id }, receipt).await;
    }
    match fate_of_own(app, user, id, params.template).await? {
        Fate::Decided(ClaimFate::Landed(claim)) => {
            Ok(Json(FoundBody::landed(&claim)).into_response())
        }
        Fate::Decided(ClaimFate::Rejected { reason, .. }) => {
            Ok(Json(FoundBody::rejected(reason)).into_response())
        }
        Fate::Decided(ClaimFate::Lost { .. }) => Ok(Json(FoundBody::lost()).into_response()),
        Fate::Decided(ClaimFate::GivenUp { .. }) | Fate::Never => Err(not_found()),
        Fate::Processing { .. } => {
            let body = PendingBody { status: "processing" };
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
        Fate::TemplateNeeded => Err(template_needed()),
    }
}

/// Determines the fate of a user's claim. Another user's claim in flight is not ended, but never was as far as this user
/// is told.
pub(crate) async fn fate_of_own(
    app: &App,
    user: UserId,
    id: ClaimId,
    template: Option<TemplateId>,
) -> Result<Fate, Problem> {
    // A template that shoppers cannot see has no claims.
    if let Some(template) = template
        && app.templates.visible_by_now(template).await?.is_none()
    {
        return Ok(Fate::Never);
    }
    let asked = ClaimQuery { id, template, asker: Asker::User(user) };
    let may_fence = || app.fence_limit.count_of_user(user);
    let fate = fate(&app.pool, app.gates.gate(), asked, app.clock.now(), may_fence).await;
    match fate.map_err(|error| fate_unknown(id, error))? {
        Fate::Processing { user: Some(owner), .. } if owner != user => Ok(Fate::Never),
        fate => Ok(fate),
    }
}

/// Answers for a queued claim.
async fn followed(app: &App, owner: Owner, receipt: &str) -> Result<Response, Problem> {
    let receipt = app.receipts.read(receipt, owner, app.clock.now())?;
    if let Some(found) = outcome(app, owner, &receipt).await? {
        return Ok(Json(found).into_response());
    }
    let estimate = app.queue.estimate(receipt.place, app.clock.now());
    let body = Json(WaitingBody::of(owner.id, estimate));
    Ok(with_retry_after((StatusCode::ACCEPTED, body).into_response(), estimate))
}

/// Returns the outcome of a queued claim, or `None` while it is on its way.
pub(crate) async fn outcome(
    app: &App,
    owner: Owner,
    receipt: &Receipt,
) -> Result<Option<FoundBody>, Problem> {
    let Owner { template, user, id } = owner;
    let fate = queued_fate(&app.pool, template, user, id, receipt.epoch, &receipt.key).await?;
    Ok(match fate {
        QueuedFate::Succeeded(claim) => Some(FoundBody::landed(&claim)),
        QueuedFate::Rejected(reason) => Some(FoundBody::rejected(reason)),
        QueuedFate::Lost => Some(FoundBody::lost()),
        QueuedFate::Processing => None,
    })
}

pub(crate) fn not_found() -> Problem {
    Problem::new(Code::ClaimNotFound, "No claim of yours has this id; it did not land.")
}

/// MySQL has not decided the claim; only its template's gate knows whether it is being processed.
pub(crate) fn template_needed() -> Problem {
    let detail = "Name the claim's template in `?template=`, as `Location` and `poll` do: whether the claim is on its \
                  way is known there.";
    Problem::new(Code::TemplateNeeded, detail)
}

/// The state of the claim cannot be determined now.
pub(crate) fn fate_unknown(id: ClaimId, error: FateError) -> Problem {
    match error {
        FateError::Store(error) => Problem::from(error),
        FateError::TooMany { wait } => Problem::too_many_lookups(seconds_to_wait(wait)),
        FateError::Gate(error) => {
            let why = format!("claim {id}: {}", runtime::report(&error));
            runtime::seldom!("claims are not looked up", why);
            let detail = "MySQL knows nothing of this claim yet, and the gate's Redis did not answer. Send the \
                          request again.";
            Problem::new(Code::GateUnavailable, detail)
        }
    }
}
