//! `GET /v1/claims/{id}`: where a user looks up a claim that was not answered in time.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use coupon::{ClaimId, TemplateId, UserId};
use landing::claims::fate::{Asked, Fate, FateError, fate};
use mysql_store::look_up::ClaimFate;
use serde::{Deserialize, Serialize};
use tracing::warn;
use utoipa::ToSchema;

use crate::{
    auth::User,
    code::Code,
    http::{
        extract::{Params, PathId},
        schemas::Id,
    },
    problem::Problem,
    routes::shopper::claims::{ClaimBody, example},
    state::App,
};

/// A claim that has landed.
#[derive(Serialize, ToSchema)]
#[schema(as = FoundClaim, examples(json!({ "status": "landed", "claim": example() })))]
struct FoundBody {
    #[schema(pattern = "^landed$")]
    status: &'static str,
    claim: ClaimBody,
}

/// A claim that is still being processed.
#[derive(Serialize, ToSchema)]
#[schema(as = PendingClaim, examples(json!({ "status": "processing" })))]
struct PendingBody {
    #[schema(pattern = "^processing$")]
    status: &'static str,
}

#[derive(Deserialize)]
pub(crate) struct PollParams {
    template: Option<TemplateId>,
}

/// `GET /v1/claims/{id}?template=`
#[utoipa::path(
    get,
    path = "/v1/claims/{id}",
    operation_id = "get_claim",
    tag = "Claims",
    summary = "Look for a claim that was not answered",
    description = "404 is definite: the claim did not land and never will.",
    security(("token" = [])),
    params(
        ("id" = Id, Path, description = "The claim, as `Location` and `poll` have it."),
        ("template" = Option<Id>, Query, description = "Its template, as `Location` and `poll` have it. Needed as long as the claim has not landed.")
    ),
    responses(
        (status = 200, description = "It has landed.", body = FoundBody),
        (status = 202, description = "It is on its way: look again.", body = PendingBody)
    ),
    extensions(("x-problems" = json!("RATE_LIMITED CLAIM_NOT_FOUND TEMPLATE_NEEDED GATE_UNAVAILABLE OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<PollParams>,
) -> Response {
    app.reads.limited(user, found(&app, user, id, params)).await
}

async fn found(
    app: &App,
    user: UserId,
    id: ClaimId,
    params: PollParams,
) -> Result<Response, Problem> {
    // A template that shoppers cannot see has no claims.
    let template = match params.template {
        Some(template) => match app.templates.published_by_now(template).await? {
            Some(_) => Some(template),
            None => return Err(not_found()),
        },
        None => None,
    };
    let asked = Asked { id, template, user: Some(user) };
    let may_fence = || app.fences.count(user).is_ok();
    let fate = fate(&app.pool, app.gates.gate(), asked, app.clock.now(), may_fence).await;
    match fate.map_err(|error| cannot_tell(id, error))? {
        Fate::Decided(ClaimFate::Landed(claim)) if claim.user_id == user => {
            let body = FoundBody { status: "landed", claim: ClaimBody::of(&claim) };
            Ok(Json(body).into_response())
        }
        // Another user's claim is not found, whatever its state.
        Fate::Processing { user: Some(owner), .. } if owner != user => Err(not_found()),
        Fate::Decided(_) | Fate::Never => Err(not_found()),
        Fate::Processing { .. } => {
            let body = PendingBody { status: "processing" };
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
        Fate::TemplateNeeded => Err(template_needed()),
    }
}

fn not_found() -> Problem {
    Problem::new(Code::ClaimNotFound, "No claim of yours has this id; it did not land.")
}

/// MySQL has not decided the claim; only its template's gate knows whether it is being processed.
pub(crate) fn template_needed() -> Problem {
    let detail = "Name the claim's template in `?template=`, as `Location` and `poll` do: whether the claim is on its \
                  way is known there.";
    Problem::new(Code::TemplateNeeded, detail)
}

/// The state of the claim cannot be determined now.
pub(crate) fn cannot_tell(id: ClaimId, error: FateError) -> Problem {
    match error {
        FateError::Store(error) => Problem::from(error),
        FateError::Gate(error) => {
            warn!(claim.id = %id, error = runtime::report(&error), "a claim is not looked up");
            let detail = "MySQL knows nothing of this claim yet, and the gate's Redis did not answer. Send the \
                          request again.";
            Problem::unavailable(Code::GateUnavailable, detail)
        }
    }
}
