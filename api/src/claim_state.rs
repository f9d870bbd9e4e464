//! What has become of a claim, for an operator whom its user asks: `GET /v1/claim-states/{id}`.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{ClaimId, MerchantId, TemplateId, UserId};
use mysql_store::{
    MySqlConnection, StoreError, connect,
    look_up::{self, ClaimFate},
    template,
};
use redis_gate::InFlight;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::warn;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    body::{Params, PathId},
    claims::{self, ClaimBody},
    instant::instant,
    openapi::{Id, Instant},
    problem::Problem,
    state::App,
    templates,
};

/// What has become of a claim.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimState, examples(example))]
pub(crate) struct ClaimStateBody {
    #[schema(value_type = Id)]
    id: String,
    /// `landed`: its user has the coupons. `processing`: it was admitted, and lands or is given up within
    /// moments. `given_up`: it can never land; the same key sent again is a new claim.
    #[schema(pattern = "^(landed|processing|given_up)$")]
    status: &'static str,
    #[schema(value_type = Id)]
    template_id: String,
    #[schema(value_type = Id)]
    user_id: String,
    /// When it was admitted; of one that was given up, when that was.
    #[schema(value_type = Instant)]
    at: String,
    /// As its user was answered; only of a claim that has landed.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<ClaimBody>,
}

/// Where to look besides MySQL.
#[derive(Deserialize)]
pub(crate) struct Where {
    template: Option<TemplateId>,
}

fn example() -> serde_json::Value {
    json!({
        "id": "2123985068924862465", "status": "landed", "template_id": "2123985067360387072",
        "user_id": "42", "at": "2026-11-27T08:00:01.207Z", "claim": claims::example(),
    })
}

/// `GET /v1/claim-states/{id}?template=`
#[utoipa::path(
    get,
    path = "/v1/claim-states/{id}",
    operation_id = "get_claim_state",
    tag = "Operations",
    summary = "Look up what has become of a claim",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The claim, as its user was told in `Location` or `poll`."),
        ("template" = Option<Id>, Query, description = "Its template: without it a claim on its way is not found.")
    ),
    responses((status = 200, description = "A claim of one's own templates.", body = ClaimStateBody)),
    extensions(("x-problems" = json!("CLAIM_NOT_FOUND TEMPLATE_NOT_FOUND GATE_UNAVAILABLE")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<Where>,
) -> Result<Json<ClaimStateBody>, Problem> {
    // The gate first, MySQL second: what lands in between is then seen.
    let in_gate = match params.template {
        Some(template) => {
            templates::owned(&app, operator, template).await?;
            in_gate(&app, template, id).await.map(|found| found.map(|entry| (template, entry)))
        }
        None => Ok(None),
    };
    let mut connection = connect::acquire(&app.pool).await?;
    let found = own_fate(&mut connection, operator.merchant_id, id);
    if let Some(fate) = connect::within(found).await? {
        return Ok(Json(ClaimStateBody::of_fate(&fate)));
    }
    match in_gate? {
        Some((template, entry)) => Ok(Json(ClaimStateBody::in_flight(template, &entry))),
        None => Err(Problem::not_found("CLAIM_NOT_FOUND", unknown(params.template))),
    }
}

async fn own_fate(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    id: ClaimId,
) -> Result<Option<ClaimFate>, StoreError> {
    let Some(fate) = look_up::claim_fate(connection, id).await? else { return Ok(None) };
    let template = template::get(connection, fate.template_id()).await?;
    let own = template.is_some_and(|template| template.merchant_id == merchant);
    Ok(own.then_some(fate))
}

async fn in_gate(
    app: &App,
    template: TemplateId,
    id: ClaimId,
) -> Result<Option<InFlight>, Problem> {
    let gate = app.gates.gate();
    let found = async {
        match gate.meta(template).await? {
            Some(meta) => gate.find_in_flight(template, meta.epoch, id).await,
            None => Ok(None),
        }
    };
    found.await.map_err(|error| {
        warn!(template.id = %template, error = runtime::report(&error), "a claim is not looked up");
        let detail = "MySQL knows nothing of this claim, and the gate's Redis did not answer. Send the \
                      request again.";
        Problem::unavailable("GATE_UNAVAILABLE", detail)
    })
}

fn unknown(template: Option<TemplateId>) -> &'static str {
    match template {
        Some(_) => {
            "No claim of this id has landed, was given up or is on its way at a template of yours. Look \
             again in a moment if it was sent just now."
        }
        None => {
            "No claim of this id has landed or was given up at a template of yours. Name its `template` to \
             look among those on their way."
        }
    }
}

impl ClaimStateBody {
    fn of_fate(fate: &ClaimFate) -> Self {
        match fate {
            ClaimFate::Landed(claim) => Self {
                claim: Some(ClaimBody::of(claim)),
                ..Self::new("landed", claim.id, claim.template_id, claim.user_id, claim.claimed_at)
            },
            ClaimFate::GivenUp { id, template_id, user_id, at } => {
                Self::new("given_up", *id, *template_id, *user_id, *at)
            }
        }
    }

    fn in_flight(template: TemplateId, entry: &InFlight) -> Self {
        Self::new("processing", entry.id, template, entry.user, entry.admitted_at)
    }

    fn new(
        status: &'static str,
        id: ClaimId,
        template: TemplateId,
        user: UserId,
        at: DateTime<Utc>,
    ) -> Self {
        Self {
            id: id.to_string(),
            status,
            template_id: template.to_string(),
            user_id: user.to_string(),
            at: instant(at),
            claim: None,
        }
    }
}
