//! `POST /v1/templates/{id}/claims`: takes claims in. `landing::claims` processes them; [`crate::routes::shopper::claim_poll`] looks up
//! one that was not answered in time.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use coupon::{Claim, ClaimId, LandedClaim, PayloadHash, Template, TemplateId, UserId, limit};
use landing::claims::{Answer, Unavailable};
use redis_gate::Refusal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    auth::User,
    code::Code,
    http::{
        extract::{Body, PathId},
        headers,
        instant::instant,
        request_span::RequestSpan,
        schemas::{Id, Instant, RequestId},
    },
    problem::{Problem, unknown_template},
    state::App,
};

/// How long a request waits for its claim before the client is sent to poll; the claim continues. Shorter than the ten
/// seconds after which clients and proxies commonly give up.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Marks the answer of an earlier request with the same key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Request to claim coupons.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewClaim, examples(json!({ "quantity": 1 })))]
pub(crate) struct ClaimRequest {
    /// Number of coupons. Default: 1.
    #[schema(minimum = 1, maximum = 100)]
    quantity: Option<i64>,
}

/// A landed claim. It consists of values that never change: a replay has the same bytes.
#[derive(Serialize, ToSchema)]
#[schema(as = Claim, examples(example))]
pub(crate) struct ClaimBody {
    #[schema(value_type = Id)]
    id: String,
    #[schema(value_type = Id)]
    template_id: String,
    #[schema(value_type = Id)]
    user_id: String,
    quantity: usize,
    #[schema(value_type = Instant)]
    claimed_at: String,
    #[schema(value_type = Instant)]
    valid_from: String,
    #[schema(value_type = Instant)]
    valid_until: String,
    coupons: Vec<CouponBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ClaimedCoupon)]
pub(crate) struct CouponBody {
    #[schema(value_type = Id)]
    id: String,
    /// The coupon's number among the user's, from 1 to the limit. Absent if the template has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, minimum = 1)]
    number: Option<i64>,
}

/// Example of a claim for the OpenAPI document.
pub(crate) fn example() -> Value {
    json!({
        "id": "2123985068924862465", "template_id": "2123985067360387072", "user_id": "42", "quantity": 1,
        "claimed_at": "2026-11-27T08:00:01.207Z", "valid_from": "2026-11-27T08:00:01.207Z",
        "valid_until": "2026-12-04T08:00:01.207Z",
        "coupons": [{ "id": "2123985068924862464", "number": 1 }],
    })
}

/// `POST /v1/templates/{id}/claims`
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/claims",
    operation_id = "claim",
    tag = "Claims",
    summary = "Claim coupons",
    security(("token" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "A new one for each claim, the same one with a retry. May be absent where `per_user_limit` is 1.")
    ),
    request_body = Option<ClaimRequest>,
    responses(
        (status = 201, description = "Landed. The same key again is the same answer, byte by byte.", body = ClaimBody,
            headers(
                ("Location" = String, description = "Where the claim can be looked at."),
                ("Idempotency-Replayed" = String, description = "`true`: the answer of an earlier request.")
            ))
    ),
    extensions(("x-problems" = json!(
        "RATE_LIMITED TEMPLATE_NOT_FOUND IDEMPOTENCY_KEY_MISSING IDEMPOTENCY_KEY_INVALID \
         IDEMPOTENCY_KEY_REUSED INVALID_QUANTITY NOT_OPEN PAUSED CLOSED ENDED LIMIT_REACHED SOLD_OUT \
         INSUFFICIENT_STOCK REQUEST_IN_PROGRESS OVERLOADED CLAIM_PENDING CLAIM_GIVEN_UP GATE_LOADING \
         GATE_UNAVAILABLE"
    )))
)]
pub(crate) async fn create(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<TemplateId>,
    hop: RequestSpan,
    headers: HeaderMap,
    Body(request): Body<ClaimRequest>,
) -> Response {
    hop.set("coupon.template.id", id);
    app.rate_limit.limited(user, claimed(&app, user, id, &headers, &request, &hop)).await
}

async fn claimed(
    app: &App,
    user: UserId,
    id: TemplateId,
    headers: &HeaderMap,
    request: &ClaimRequest,
    hop: &RequestSpan,
) -> Result<Response, Problem> {
    let template = app.templates.published(id).await?.ok_or_else(unknown_template)?;
    let request_id = headers::request_id(headers, &template)?;
    let quantity = quantity(request.quantity.unwrap_or(1), &template)?;
    let claim = Claim {
        id: app.ids.claim()?,
        template_id: id,
        user_id: user,
        request_id,
        payload_hash: PayloadHash::of_quantity(quantity),
        quantity,
        claimed_at: app.clock.now(),
        // What follows belongs to this request's span or, if it is not traced, to its caller's.
        trace_parent: hop
            .trace_parent()
            .or_else(|| headers::trace_parent(headers).map(str::to_owned)),
    };
    let claim_id = claim.id;
    hop.set("coupon.claim.id", claim_id);
    // From here on a task of its own owns the claim: a client that disconnects cancels nothing.
    match tokio::time::timeout(ANSWER_MAX, app.claims.claim(template, claim)).await {
        Ok(answer) => respond(answer, claim_id, id),
        Err(_) => Err(pending(claim_id, id)),
    }
}

fn quantity(asked: i64, template: &Template) -> Result<u32, Problem> {
    let most = template.max_per_claim.min(limit::QUANTITY_MAX);
    u32::try_from(asked).ok().filter(|asked| (1..=most).contains(asked)).ok_or_else(|| {
        let detail = format!("Use a `quantity` of 1 to {most}.");
        Problem::new(Code::InvalidQuantity, detail).with("max_per_claim", most)
    })
}

fn respond(answer: Answer, claim_id: ClaimId, template: TemplateId) -> Result<Response, Problem> {
    match answer {
        Answer::Landed { claim, replayed } => Ok(landed(&claim, replayed)),
        Answer::Refused(refusal) => Err(refused(refusal)),
        Answer::KeyReused => Err(Problem::new(
            Code::IdempotencyKeyReused,
            "This `Idempotency-Key` was used for another payload. Send a new key.",
        )),
        Answer::InProgress => Err(Problem::new(
            Code::RequestInProgress,
            "A request with this `Idempotency-Key` is under way. Send it again in a moment.",
        )
        .retry_after()),
        Answer::Unavailable(why) => Err(unavailable(why, claim_id, template)),
    }
}

fn landed(claim: &LandedClaim, replayed: bool) -> Response {
    let mut response = (StatusCode::CREATED, Json(ClaimBody::of(claim))).into_response();
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&poll_url(claim.id, claim.template_id)) {
        headers.insert(header::LOCATION, location);
    }
    if replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn refused(refusal: Refusal) -> Problem {
    let problem = |code, detail: &str| Problem::new(code, detail);
    match refusal {
        Refusal::NotOpen { starts_at } => {
            let at = instant(starts_at);
            problem(Code::NotOpen, &format!("Claims open at {at}."))
                .with("opens_at", at)
        }
        Refusal::Paused => {
            problem(Code::Paused, "Claims are paused. Try again later.").retry_after()
        }
        Refusal::Closed => problem(Code::Closed, "The time for claims is over."),
        Refusal::Ended => problem(Code::Ended, "This coupon is no longer given out."),
        Refusal::Limit { taken } => problem(
            Code::LimitReached,
            &format!(
                "You have claimed {taken} of these coupons, and this would be more than one person may."
            ),
        )
        .with("held", taken),
        Refusal::SoldOut => problem(Code::SoldOut, "Nothing is left."),
        Refusal::Insufficient { left } => problem(
            Code::InsufficientStock,
            &format!("Only {left} are left. The same key may ask for less."),
        )
        .with("left", left),
    }
}

fn unavailable(why: Unavailable, claim_id: ClaimId, template: TemplateId) -> Problem {
    match why {
        Unavailable::Overloaded => Problem::unavailable(
            Code::Overloaded,
            "Too many claims are under way. Send the request again with the same key.",
        ),
        Unavailable::GateLoading => Problem::unavailable(
            Code::GateLoading,
            "The template is being loaded. Send the request again with the same key.",
        ),
        Unavailable::Gate => Problem::unavailable(
            Code::GateUnavailable,
            "Whether the claim succeeded is unknown. Send the request again with the same key.",
        ),
        Unavailable::Store => pending(claim_id, template),
        Unavailable::GivenUp => Problem::unavailable(
            Code::ClaimGivenUp,
            "The claim did not succeed. Send the request again with the same key.",
        ),
        Unavailable::Stopping => pending(claim_id, template),
    }
}

/// A timeout is an unknown outcome, not a failure: the claim may still land.
fn pending(id: ClaimId, template: TemplateId) -> Problem {
    let detail = "Whether the claim succeeded is not known yet. Send the request again with the same \
                  key, or look at `poll`.";
    Problem::unavailable(Code::ClaimPending, detail).with("poll", poll_url(id, template))
}

fn poll_url(id: ClaimId, template: TemplateId) -> String {
    format!("/v1/claims/{id}?template={template}")
}

impl ClaimBody {
    pub(crate) fn of(claim: &LandedClaim) -> Self {
        let numbered = i64::from(limit::PER_USER_MAX);
        Self {
            id: claim.id.to_string(),
            template_id: claim.template_id.to_string(),
            user_id: claim.user_id.to_string(),
            quantity: claim.coupons.len(),
            claimed_at: instant(claim.claimed_at),
            valid_from: instant(claim.valid_from),
            valid_until: instant(claim.valid_until),
            coupons: claim
                .coupons
                .iter()
                .map(|coupon| CouponBody {
                    id: coupon.id.to_string(),
                    number: (coupon.claim_no <= numbered).then_some(coupon.claim_no),
                })
                .collect(),
        }
    }
}
