//! `POST /v1/templates/{id}/claims`: takes claims in. `landing::claims` processes them; [`crate::routes::shopper::claim_poll`] looks up
//! one that was not answered in time, or that was accepted and waits in a queue.

use std::time::{Duration, Instant as Moment};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use coupon::{
    Claim, ClaimId, LandedClaim, PayloadHash, RejectReason, RequestId, Template, TemplateId,
    UserId, limit,
};
use landing::claims::{Answer, Unavailable};
use redis_gate::Refusal;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    access,
    auth::User,
    code::Code,
    http::{
        extract::{Body, PathId},
        headers,
        instant::instant,
        request_span::RequestSpan,
        schemas::{self, Id},
    },
    problem::{Problem, unknown_template},
    receipt::{Owner, Receipt},
    routes::{
        bodies::claim_body::ClaimBody,
        shopper::waiting::{WaitingBody, with_retry_after},
    },
    state::App,
    stats::counter::Answered,
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
        ("Idempotency-Key" = Option<schemas::RequestId>, Header, description = "A new one for each claim, the same one with a retry. May be absent where `per_user_limit` is 1 and `hold_ms` 0.")
    ),
    request_body = Option<ClaimRequest>,
    responses(
        (status = 201, description = "Landed. The same key again is the same answer, byte by byte.", body = ClaimBody,
            headers(
                ("Location" = String, description = "Where the claim can be looked at."),
                ("Idempotency-Replayed" = String, description = "`true`: the answer of an earlier request.")
            )),
        (status = 202, description = "Accepted: it waits in a queue, and lands or is rejected later. Look at `Location`.", body = WaitingBody,
            headers(
                ("Location" = String, description = "Where its user follows it, with its receipt."),
                ("Retry-After" = u32, description = "After how many seconds to look."),
                ("Idempotency-Replayed" = String, description = "`true`: it was accepted by an earlier request.")
            ))
    ),
    extensions(("x-problems" = json!(
        "RATE_LIMITED TEMPLATE_NOT_FOUND IDEMPOTENCY_KEY_MISSING IDEMPOTENCY_KEY_INVALID \
         IDEMPOTENCY_KEY_REUSED INVALID_QUANTITY NOT_OPEN PAUSED CLOSED ENDED LIMIT_REACHED BANNED SOLD_OUT \
         INSUFFICIENT_STOCK FAILED REQUEST_IN_PROGRESS OVERLOADED CLAIM_PENDING CLAIM_GIVEN_UP GATE_LOADING \
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
    let begun = Moment::now();
    // Their values if the user's rate refuses the claim. The pause before that answer does not count.
    let mut answered = Answered::Refused(Code::RateLimited);
    let mut took = Duration::ZERO;
    let work = async {
        let answer = claimed(&app, user, id, &headers, &request, &hop).await;
        answered = answered_by(&answer);
        took = begun.elapsed();
        answer
    };
    let response = app.claim_limit.limited(user, work).await;
    // Ids that clients make up get no statistics of their own.
    let known = app.templates.knows(id).then_some(id);
    app.stats.count(known, answered, took);
    response
}

/// Returns what an answer counts as in the statistics.
fn answered_by(answer: &Result<Response, Problem>) -> Answered {
    match answer {
        Ok(accepted) if accepted.status() == StatusCode::ACCEPTED => Answered::Accepted,
        Ok(landed) if landed.headers().contains_key(REPLAYED) => Answered::Replayed,
        Ok(_) => Answered::Landed,
        Err(problem) => Answered::Refused(problem.code()),
    }
}

async fn claimed(
    app: &App,
    user: UserId,
    id: TemplateId,
    headers: &HeaderMap,
    request: &ClaimRequest,
    hop: &RequestSpan,
) -> Result<Response, Problem> {
    let template = app.templates.visible(id).await?.ok_or_else(unknown_template)?;
    let request_id = headers::request_id(headers, &template)?;
    let quantity = quantity(request.quantity.unwrap_or(1), &template)?;
    let claim_id = app.ids.claim()?;
    access::note_claim(claim_id);
    hop.set("coupon.claim.id", claim_id);
    if app.claims.is_sold_out(&template, user, &request_id, quantity) {
        hop.set("coupon.refused_by", "memory");
        return Err(refused(Refusal::SoldOut));
    }
    let claim = Claim {
        id: claim_id,
        template_id: id,
        user_id: user,
        request_id,
        payload_hash: PayloadHash::of_quantity(quantity),
        quantity,
        claimed_at: app.sale_clock.now(),
        // Spans of the landing belong to this request's span or, if it is not traced, to its caller's.
        trace_parent: hop
            .trace_parent()
            .or_else(|| headers::trace_parent(headers).map(str::to_owned)),
    };
    let owner = Owner { template: id, user, id: claim.id };
    let key = claim.request_id.clone();
    // From here on a task of its own owns the claim: a client that disconnects cancels nothing.
    let mut begun = app.claims.begin(template, claim);
    let answer = tokio::time::timeout(ANSWER_MAX, begun.answer()).await;
    let asked = Asked { owner, key, decided_by: begun.decided_by() };
    match answer {
        Ok(answer) => respond(app, answer, &asked),
        Err(_) => Err(asked.pending()),
    }
}

/// The claim that a request made.
struct Asked {
    owner: Owner,
    key: RequestId,
    /// The admission whose outcome is that of the request, if it is known.
    decided_by: Option<ClaimId>,
}

impl Asked {
    /// Returns where an admission of this key is followed, with a receipt.
    fn location(&self, app: &App, id: ClaimId, receipt: &Receipt) -> String {
        let owner = Owner { id, ..self.owner };
        let receipt = app.receipts.issue(owner, receipt);
        format!("{}&receipt={receipt}", poll_url(owner))
    }

    /// Returns that the outcome is unknown. Only an admission can be polled: the request's own id may never have been
    /// admitted, and a poll of it would be answered that it did not land, although its key may have.
    fn pending(&self) -> Problem {
        match self.decided_by {
            Some(id) => pending_at(poll_url(Owner { id, ..self.owner })),
            None => Problem::new(
                Code::ClaimPending,
                "Whether the claim succeeded is not known yet. Send the request again with the same key.",
            ),
        }
    }
}

fn quantity(asked: i64, template: &Template) -> Result<u32, Problem> {
    let most = template.max_per_claim.min(limit::QUANTITY_MAX);
    u32::try_from(asked).ok().filter(|asked| (1..=most).contains(asked)).ok_or_else(|| {
        let detail = format!("Use a `quantity` of 1 to {most}.");
        Problem::new(Code::InvalidQuantity, detail).with("max_per_claim", most)
    })
}

fn respond(app: &App, answer: Answer, asked: &Asked) -> Result<Response, Problem> {
    match answer {
        Answer::Landed { claim, replayed } => Ok(landed(&claim, replayed)),
        Answer::Accepted { id, epoch, accepted_at, position } => {
            let receipt = Receipt { epoch, accepted_at, place: position, key: asked.key.clone() };
            Ok(accepted(app, id, &receipt, asked))
        }
        Answer::Rejected { id, reason } => Err(rejected(reason).with("claim_id", id.to_string())),
        Answer::Refused(refusal) => Err(refused(refusal)),
        Answer::KeyReused => Err(Problem::new(
            Code::IdempotencyKeyReused,
            "This `Idempotency-Key` was used for another payload. Send a new key.",
        )),
        Answer::InProgress => Err(Problem::new(
            Code::RequestInProgress,
            "A request with this `Idempotency-Key` is under way. Send it again in a moment.",
        )),
        Answer::Unavailable(why) => Err(unavailable(app, why, asked)),
    }
}

/// It is in the queue. An admission of another id was accepted by an earlier request.
fn accepted(app: &App, id: ClaimId, receipt: &Receipt, asked: &Asked) -> Response {
    let estimate = app.queue.estimate(receipt.place, app.clock.now());
    let body = Json(WaitingBody::of(id, estimate));
    let mut response = with_retry_after((StatusCode::ACCEPTED, body).into_response(), estimate);
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&asked.location(app, id, receipt)) {
        headers.insert(header::LOCATION, location);
    }
    if id != asked.owner.id {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// A queued claim with this key was rejected, and the key with it.
fn rejected(reason: RejectReason) -> Problem {
    let (code, why) = match reason {
        RejectReason::SoldOut => (Code::SoldOut, "nothing was left"),
        RejectReason::InsufficientStock => (Code::InsufficientStock, "too little was left"),
        RejectReason::LimitReached => {
            (Code::LimitReached, "it would have been more than one person may have")
        }
        RejectReason::Paused => (Code::Paused, "claims were paused, and accepted ones refused"),
        RejectReason::Ended => (Code::Ended, "the coupon was ended, and accepted claims refused"),
        RejectReason::Failed | RejectReason::Cancelled => (Code::Failed, "it could not be landed"),
    };
    let detail = format!(
        "The claim with this key was accepted, and then rejected: {why}. Send a new key to claim again."
    );
    Problem::new(code, detail).finally()
}

fn landed(claim: &LandedClaim, replayed: bool) -> Response {
    let mut response = (StatusCode::CREATED, Json(ClaimBody::of(claim))).into_response();
    let headers = response.headers_mut();
    let owner = Owner { template: claim.template_id, user: claim.user_id, id: claim.id };
    if let Ok(location) = HeaderValue::from_str(&poll_url(owner)) {
        headers.insert(header::LOCATION, location);
    }
    if replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::NotOpen { starts_at } => {
            let at = instant(starts_at);
            Problem::new(Code::NotOpen, format!("Claims open at {at}."))
                .with("opens_at", at)
        }
        Refusal::Paused => {
            Problem::new(Code::Paused, "Claims are paused. Try again later.")
        }
        Refusal::Closed => Problem::new(Code::Closed, "The time for claims is over."),
        Refusal::Ended => Problem::new(Code::Ended, "This coupon is no longer given out."),
        Refusal::Limit { taken } => Problem::new(
            Code::LimitReached,
            format!(
                "You have claimed {taken} of these coupons, and this would be more than one person may."
            ),
        )
        .with("held", taken),
        Refusal::Banned { lapses } => Problem::new(
            Code::Banned,
            format!("You let {lapses} held coupons lapse, as many as one person may."),
        )
        .with("lapses", lapses),
        Refusal::SoldOut => Problem::new(Code::SoldOut, "Nothing is left."),
        Refusal::Insufficient { left } => Problem::new(
            Code::InsufficientStock,
            format!("Only {left} are left. The same key may ask for less."),
        )
        .with("left", left),
    }
}

fn unavailable(app: &App, why: Unavailable, asked: &Asked) -> Problem {
    match why {
        Unavailable::Overloaded => Problem::new(
            Code::Overloaded,
            "Too many claims are under way. Send the request again with the same key.",
        ),
        Unavailable::GateLoading => Problem::new(
            Code::GateLoading,
            "The template is being loaded. Send the request again with the same key.",
        ),
        Unavailable::Gate => Problem::new(
            Code::GateUnavailable,
            "Whether the claim succeeded is unknown. Send the request again with the same key.",
        ),
        Unavailable::Store | Unavailable::Stopping => asked.pending(),
        Unavailable::Queue { id, epoch, accepted_at } => {
            let receipt = Receipt { epoch, accepted_at, place: None, key: asked.key.clone() };
            let location = asked.location(app, id, &receipt);
            pending_at(location.clone()).at(location)
        }
        Unavailable::GivenUp => Problem::new(
            Code::ClaimGivenUp,
            "The claim did not succeed. Send the request again with the same key.",
        ),
    }
}

/// A timeout is an unknown outcome, not a failure: the claim may still land.
fn pending_at(poll: String) -> Problem {
    let detail = "Whether the claim succeeded is not known yet. Send the request again with the same \
                  key, or look at `poll`.";
    Problem::new(Code::ClaimPending, detail).with("poll", poll)
}

fn poll_url(owner: Owner) -> String {
    let Owner { template, id, .. } = owner;
    format!("/v1/claims/{id}?template={template}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_final_whatever_its_code_says_of_others() {
        for reason in RejectReason::ALL {
            let problem = rejected(reason);
            // Nothing cancels claims yet.
            if reason != RejectReason::Cancelled {
                assert_eq!(problem.code().word(), reason.word());
            }
            let answer = problem.into_response();
            assert_eq!(answer.status(), StatusCode::CONFLICT, "{reason:?}");
            assert!(!answer.headers().contains_key(header::RETRY_AFTER), "{reason:?}");
        }
    }
}
