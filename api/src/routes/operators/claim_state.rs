//! `GET /v1/claim-states/{id}`: shows an operator the state of a user's claim.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{ClaimId, TemplateId, UserId};
use landing::claims::fate::{Asker, ClaimQuery, Fate, fate};
use mysql_store::look_up::ClaimFate;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        extract::{Params, PathId},
        instant::instant,
        schemas::{Id, Instant},
    },
    problem::Problem,
    routes::{
        bodies::claim_body::{self, ClaimBody},
        operators::templates,
        shopper::claim_poll::{fate_unknown, template_needed},
    },
    state::App,
};

/// The state of a claim.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimState, examples(example))]
pub(crate) struct ClaimStateBody {
    #[schema(value_type = Id)]
    id: String,
    /// `landed`: the user has the coupons. `processing`: it was admitted, and lands or is given up within moments.
    /// `rejected`: it was accepted and is rejected for good, and so is its key. `given_up`: it can never land; the same
    /// key sent again is a new claim. `lost`: it had landed, and a failover of MySQL lost it; its unit is on sale again,
    /// and the same key sent again is a new claim.
    #[schema(pattern = "^(landed|processing|rejected|given_up|lost)$")]
    status: &'static str,
    #[schema(value_type = Id)]
    template_id: String,
    /// Absent while only the claim's id is known.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// When the claim was admitted; for `rejected` and `given_up`, when that was decided, or for a claim of which only the
    /// id is known, when it was old enough for that.
    #[schema(value_type = Instant)]
    at: String,
    /// Why it was rejected (docs/errors.md). Only for `rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    code: Option<&'static str>,
    /// The claim as its user's answer showed it. Only for `landed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<ClaimBody>,
}

#[derive(Deserialize)]
pub(crate) struct Where {
    pub(crate) template: Option<TemplateId>,
}

/// A claim of a template of the operator's merchant.
pub(crate) enum Found {
    Decided(ClaimFate),
    /// It is under way, or nothing rules that out.
    Processing {
        template: TemplateId,
        /// The owner, if the gate knows the claim.
        user: Option<UserId>,
        /// When it was admitted or, without an owner, when its id was made.
        at: DateTime<Utc>,
    },
}

pub(super) fn example() -> serde_json::Value {
    json!({
        "id": "2123985068924862465", "status": "landed", "template_id": "2123985067360387072",
        "user_id": "42", "at": "2026-11-27T08:00:01.207Z", "claim": claim_body::example(),
    })
}

/// `GET /v1/claim-states/{id}?template=`
#[utoipa::path(
    get,
    path = "/v1/claim-states/{id}",
    operation_id = "get_claim_state",
    tag = "Operations",
    summary = "Look up what has become of a claim",
    description = "If nothing is known of an id for ten seconds, a look-up gives it up. Each api does so for ten ids of a merchant \
                   a second and 120 a minute; more are 429 `TOO_MANY_LOOKUPS`. Another merchant's claim is answered like \
                   an id of that age which no claim has: `processing`, then `given_up` at the named template, without a \
                   user.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The claim, as `Location` and `poll` named it to its user."),
        ("template" = Option<Id>, Query, description = "Its template. Needed as long as the claim is not decided.")
    ),
    responses((status = 200, description = "A claim of one's own templates.", body = ClaimStateBody)),
    extensions(("x-problems" = json!("CLAIM_NOT_FOUND TEMPLATE_NEEDED TEMPLATE_NOT_FOUND TOO_MANY_LOOKUPS GATE_UNAVAILABLE")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<Where>,
) -> Result<Json<ClaimStateBody>, Problem> {
    let found = find(&app, operator, id, params.template).await?;
    Ok(Json(ClaimStateBody::of(id, &found)))
}

/// Finds a claim. Another merchant's is answered like one that nothing is known of. A claim that stays unknown for longer
/// than the resolver's grace is given up. [`crate::auth::fence_limit`] limits these for each merchant.
pub(crate) async fn find(
    app: &App,
    operator: Operator,
    id: ClaimId,
    template: Option<TemplateId>,
) -> Result<Found, Problem> {
    if let Some(template) = template {
        templates::owned(app, operator, template).await?;
    }
    let query = ClaimQuery { id, template, asker: Asker::Merchant(operator.merchant_id) };
    let may_fence = || app.fence_limit.count_of_operator(operator);
    let fate = fate(&app.pool, app.gates.gate(), query, app.clock.now(), may_fence).await;
    match fate.map_err(|error| fate_unknown(id, error))? {
        Fate::Decided(fate) => Ok(Found::Decided(fate)),
        Fate::Processing { user, at } => {
            let template = template.ok_or_else(template_needed)?;
            Ok(Found::Processing { template, user, at })
        }
        Fate::Never => Err(not_found()),
        Fate::TemplateNeeded => Err(template_needed()),
    }
}

fn not_found() -> Problem {
    let detail = "No claim of a template of yours has this id, or can still get it.";
    Problem::new(Code::ClaimNotFound, detail)
}

impl ClaimStateBody {
    pub(super) fn of(id: ClaimId, found: &Found) -> Self {
        match found {
            Found::Decided(fate) => Self::of_fate(fate),
            Found::Processing { template, user, at } => {
                Self::new("processing", id, *template, *user, *at)
            }
        }
    }

    fn of_fate(fate: &ClaimFate) -> Self {
        match fate {
            ClaimFate::Landed(claim) => Self {
                claim: Some(ClaimBody::of(claim)),
                ..Self::new(
                    "landed",
                    claim.id,
                    claim.template_id,
                    Some(claim.user_id),
                    claim.claimed_at,
                )
            },
            ClaimFate::Rejected { id, template_id, user_id, reason, at } => Self {
                code: Some(reason.word()),
                ..Self::new("rejected", *id, *template_id, Some(*user_id), *at)
            },
            ClaimFate::Lost { id, template_id, user_id, at } => {
                Self::new("lost", *id, *template_id, Some(*user_id), *at)
            }
            ClaimFate::GivenUp { id, template_id, user_id, at } => {
                // A fence that a lookup placed has no user.
                let user = Some(*user_id).filter(|user| user.0 != 0);
                Self::new("given_up", *id, *template_id, user, *at)
            }
        }
    }

    fn new(
        status: &'static str,
        id: ClaimId,
        template: TemplateId,
        user: Option<UserId>,
        at: DateTime<Utc>,
    ) -> Self {
        Self {
            id: id.to_string(),
            status,
            template_id: template.to_string(),
            user_id: user.map(|user| user.to_string()),
            at: instant(at),
            code: None,
            claim: None,
        }
    }
}
