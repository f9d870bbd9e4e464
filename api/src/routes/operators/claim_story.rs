//! `GET /v1/claim-states/{id}/story`: tells an operator a claim's way, hop by hop, and which hop was late.

use axum::{Json, extract::State};
use coupon::{ClaimId, TemplateId};
use mysql_store::{
    confirmation::{self, Confirmed},
    connect,
    look_up::ClaimFate,
};
use serde::Serialize;
use serde_json::{Value, json};
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
    routes::operators::claim_state::{self, ClaimStateBody, Found, Where},
    state::App,
    story::{
        StoryError, StorySubject,
        facts::End,
        hop::Hop,
        hops::{late, tell},
    },
};

/// A claim and its way.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimStory, examples(example))]
pub(crate) struct StoryBody {
    #[serde(flatten)]
    state: ClaimStateBody,
    /// When the story was read. Hops that are pending took until then.
    #[schema(value_type = Instant)]
    read_at: String,
    /// The hops that took longer than is usual, by name.
    late: Vec<&'static str>,
    /// The payments that have confirmed held coupons of the claim.
    payments: Vec<PaymentBody>,
    /// The way, in order. That of a claim without an outcome ends with the hop that it waits for.
    hops: Vec<Hop>,
}

/// A payment that has confirmed held coupons of the claim.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimPayment)]
struct PaymentBody {
    payment_ref: String,
    #[schema(value_type = Instant)]
    confirmed_at: String,
    /// `key:` and the key's id, `platform` for the platform's own key, or `topic` for a message on `coupon.payments`. Null: it
    /// was not recorded then.
    #[schema(required = true)]
    actor: Option<String>,
    /// The coupons that it confirmed.
    #[schema(value_type = Vec<Id>)]
    coupons: Vec<String>,
}

impl From<Confirmed> for PaymentBody {
    fn from(payment: Confirmed) -> Self {
        Self {
            payment_ref: payment.payment_ref,
            confirmed_at: instant(payment.confirmed_at),
            actor: payment.actor,
            coupons: payment.coupons.split(',').map(str::to_owned).collect(),
        }
    }
}

/// Example for the OpenAPI document.
fn example() -> Value {
    let mut story = claim_state::example();
    let hop = |name: &str, at: &str, took_ms: i64, usual: Option<u32>| {
        let late = usual.map(|usual| took_ms > i64::from(usual));
        json!({
            "hop": name, "state": "done", "at": at, "took_ms": took_ms, "usual_p99_ms": usual, "late": late,
        })
    };
    story["read_at"] = json!("2026-11-27T08:05:00.000Z");
    story["late"] = json!(["landed"]);
    story["payments"] = json!([]);
    story["hops"] = json!([
        hop("admitted", "2026-11-27T08:00:01.207Z", 1, Some(119)),
        hop("landed", "2026-11-27T08:00:01.607Z", 400, Some(119)),
        hop("published", "2026-11-27T08:00:01.608Z", 1, Some(5)),
    ]);
    story
}

/// `GET /v1/claim-states/{id}/story?template=`
#[utoipa::path(
    get,
    path = "/v1/claim-states/{id}/story",
    operation_id = "get_claim_story",
    tag = "Operations",
    summary = "Tell a claim's way, hop by hop, and which hop was late",
    description = "Read from what the hops left behind. A part is `unknown` if its server is away, its topic has deleted it, or more lies behind it than is read (3 s, 1,000,000 messages). Limits and refusals are those of `GET /v1/claim-states/{id}`.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The claim, as `Location` and `poll` named it to its user."),
        ("template" = Option<Id>, Query, description = "Its template. Needed as long as the claim is not decided.")
    ),
    responses((status = 200, description = "The way of a claim of one's own templates.", body = StoryBody)),
    extensions(("x-problems" = json!("CLAIM_NOT_FOUND TEMPLATE_NEEDED TEMPLATE_NOT_FOUND TOO_MANY_LOOKUPS GATE_UNAVAILABLE OVERLOADED")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<Where>,
) -> Result<Json<StoryBody>, Problem> {
    let found = claim_state::find(&app, operator, id, params.template).await?;
    let now = app.clock.now();
    let subject = subject(id, &found);
    let facts = app.stories.read(&app.pool, app.view.store(), &subject, now).await;
    let hops = tell(&facts.map_err(untold)?, now);
    let payments = match &found {
        Found::Decided(ClaimFate::Landed(_)) => payments(&app, id).await?,
        Found::Decided(_) | Found::Processing { .. } => Vec::new(),
    };
    let state = ClaimStateBody::of(id, &found);
    Ok(Json(StoryBody { state, read_at: instant(now), late: late(&hops), payments, hops }))
}

async fn payments(app: &App, id: ClaimId) -> Result<Vec<PaymentBody>, Problem> {
    let read = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        confirmation::of_claim(&mut connection, id).await
    });
    Ok(read.await?.into_iter().map(PaymentBody::from).collect())
}

fn subject(id: ClaimId, found: &Found) -> StorySubject {
    let decided = |template: TemplateId, user, end| StorySubject {
        id,
        template,
        user: Some(user),
        end,
        in_gate_since: None,
    };
    match found {
        Found::Decided(ClaimFate::Landed(claim)) => {
            let coupons = claim.coupons.iter().map(|coupon| coupon.id).collect();
            decided(claim.template_id, claim.user_id, End::Landed(coupons))
        }
        Found::Decided(ClaimFate::Rejected { template_id, user_id, reason, at, .. }) => {
            decided(*template_id, *user_id, End::Rejected { reason: *reason, at: *at })
        }
        Found::Decided(ClaimFate::Lost { template_id, user_id, at, .. }) => {
            decided(*template_id, *user_id, End::Lost { at: *at })
        }
        Found::Decided(ClaimFate::GivenUp { template_id, user_id, at, .. }) => {
            decided(*template_id, *user_id, End::GivenUp { at: *at })
        }
        Found::Processing { template, user, at } => StorySubject {
            id,
            template: *template,
            user: *user,
            end: End::UnderWay,
            in_gate_since: user.map(|_| *at),
        },
    }
}

fn untold(error: StoryError) -> Problem {
    match error {
        StoryError::Store(error) => Problem::from(error),
        StoryError::Busy => {
            let detail = "Too many stories are being read. Send the request again.";
            Problem::new(Code::Overloaded, detail)
        }
    }
}
