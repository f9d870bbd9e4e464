//! `POST /v1/claims/{id}/confirm`: a shop confirms held coupons, once it has been paid for them.
//!
//! The payment's reference identifies the request: the same call again gets the same answer. Only the coupon's row or
//! MySQL's clock decides that a hold has lapsed, since the shop then refunds the payment.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, limit, text};
use mysql_store::{
    confirmation::{self, Confirmation, Payment},
    connect,
    late_payment::{self, Late},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::info;
use utoipa::ToSchema;

use super::{
    find::{self, Claim},
    metric,
};
use crate::{
    access,
    auth::{Operator, Redeemer},
    code::Code,
    http::{
        extract::{Body, Params, PathId},
        instant::instant,
        schemas::{Id, Instant},
    },
    problem::Problem,
    routes::{
        bodies::coupon_json::{self, CouponJson},
        operators::claim_state::Where,
        shop::checkout::named,
    },
    shop::payment::{Made, Wanted},
    state::App,
};

/// A payment of held coupons.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPayment, examples(json!({ "payment_ref": "pay-77213" })))]
pub(crate) struct PaymentRequest {
    /// The shop's name of the payment, compared byte by byte, and used once. No control or invisible characters, and not
    /// only spaces.
    #[schema(min_length = 1, max_length = 64)]
    payment_ref: String,
    /// The coupons that it pays for. Absent: all of the claim, as issued.
    #[schema(value_type = Vec<Id>, required = false, min_items = 1, max_items = 100)]
    coupons: Option<Vec<CouponId>>,
}

/// A confirmation.
#[derive(Serialize, ToSchema)]
#[schema(as = ConfirmedClaim, examples(example))]
pub(crate) struct ConfirmedBody {
    #[schema(value_type = Id)]
    claim_id: String,
    payment_ref: String,
    #[schema(value_type = Instant)]
    confirmed_at: String,
    /// The confirmed coupons, as they are now, with the validity that they got.
    coupons: Vec<CouponJson>,
}

fn example() -> Value {
    json!({
        "claim_id": "2123985068924862465", "payment_ref": "pay-77213",
        "confirmed_at": "2026-11-27T08:09:40.112Z",
        "coupons": [{
            "id": "2123985068924862464", "template_id": "2123985067360387072",
            "claim_id": "2123985068924862465", "status": "unused",
            "claimed_at": "2026-11-27T08:00:01.207Z", "valid_from": "2026-11-27T08:09:40.112Z",
            "valid_until": "2026-12-04T08:09:40.112Z"
        }]
    })
}

/// `POST /v1/claims/{id}/confirm`
#[utoipa::path(
    post,
    path = "/v1/claims/{id}/confirm",
    operation_id = "confirm_claim",
    tag = "Redemption",
    summary = "Confirm held coupons that were paid for",
    description = "All of the coupons or none. Their validity begins now. The same payment again is the same answer, with \
                   the coupons as they are then.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The claim, of a template of one's own."),
        ("template" = Option<Id>, Query, description = "Its template. Needed as long as the claim has not landed.")
    ),
    request_body = PaymentRequest,
    responses((status = 200, description = "They are confirmed, and can be used.", body = ConfirmedBody)),
    extensions(("x-problems" = json!(
        "INVALID_PAYMENT CLAIM_NOT_FOUND COUPON_NOT_FOUND TEMPLATE_NOT_FOUND TEMPLATE_NEEDED HOLD_LAPSED \
         COUPON_EXPIRED ALREADY_CONFIRMED COUPON_CANCELLED PAYMENT_REF_REUSED HOLD_UNSURE CLAIM_PENDING TOO_MANY_LOOKUPS GATE_UNAVAILABLE OVERLOADED"
    )))
)]
pub(crate) async fn confirm(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<Where>,
    Body(request): Body<PaymentRequest>,
) -> Result<Json<ConfirmedBody>, Problem> {
    request.check()?;
    access::note_claim(id);
    let PaymentRequest { payment_ref, coupons } = request;
    let wanted = Wanted {
        merchant: shop.merchant_id,
        payment_ref: payment_ref.clone(),
        claim: id,
        coupons: coupons.clone().map(ascending),
        actor: shop.actor(),
    };
    let together = async { Ok::<_, Problem>(app.batches.payments.together(wanted).await) };
    let ended = match connect::within(together).await {
        Ok(Some(made)) => Ok((made, false)),
        Ok(None) => {
            let claim = find::of_shop(&app, shop, id, params.template).await?;
            let coupons = claim.coupons(coupons.as_deref())?;
            let work = || try_confirm(&app, shop, &claim, &coupons, &payment_ref);
            connect::within(connect::retried(work, Problem::is_contended)).await
        }
        Err(problem) => Err(problem),
    };
    metric::count("confirm", &ended);
    ended.map(|(made, _)| Json(ConfirmedBody::of(id, payment_ref, &made, app.clock.now())))
}

fn ascending(mut coupons: Vec<CouponId>) -> Vec<CouponId> {
    coupons.sort_unstable();
    coupons
}

/// Confirms the coupons. Returns whether an earlier call had done so.
async fn try_confirm(
    app: &App,
    shop: Operator,
    claim: &Claim,
    coupons: &[CouponId],
    payment_ref: &str,
) -> Result<(Made, bool), Problem> {
    let id = claim.landed.id;
    let now = app.clock.now();
    let actor = &*shop.actor();
    let template = claim.template.id;
    let merchant = claim.template.merchant_id;
    let payment = Payment { merchant, payment_ref, claim: id, template, coupons, actor, now };
    let mut transaction = connect::begin(&app.pool).await?;
    let ended = confirmation::confirm(&mut transaction, &payment).await?;
    let late = Late::of(payment, claim.landed.user_id, &ended);
    match ended {
        Confirmation::Confirmed(coupons) => {
            app.commit(transaction).await?;
            info!(claim.id = %id, coupons = coupons.len(), "confirmed held coupons");
            Ok((Made { confirmed_at: now, coupons }, false))
        }
        Confirmation::Replayed { confirmed_at, coupons } => {
            Ok((Made { confirmed_at, coupons }, true))
        }
        Confirmation::ReferenceTaken => {
            let detail = "This `payment_ref` has confirmed another claim or other coupons.";
            Err(Problem::new(Code::PaymentRefReused, detail))
        }
        Confirmation::Lapsed { coupon, lapsed_at } => {
            drop(transaction);
            keep(app, claim, late).await?;
            info!(claim.id = %id, "a payment came after its hold had lapsed");
            Err(named(coupon_json::hold_lapsed(lapsed_at), coupon))
        }
        Confirmation::Ended { valid_until } => Err(coupon_json::ended(valid_until)),
        Confirmation::NotHeld { coupon, status: CouponStatus::Cancelled } => {
            drop(transaction);
            keep(app, claim, late).await?;
            Err(named(coupon_json::cancelled(), coupon))
        }
        // Nothing was held, so no other payment was faster.
        Confirmation::NotHeld { .. } if !claim.template.hold.holds() => {
            let detail = "The template does not hold its coupons: they can be used from their claim on, and no payment \
                          confirms them.";
            Err(Problem::new(Code::InvalidPayment, detail).with("field", "hold_ms"))
        }
        Confirmation::NotHeld { coupon, .. } => {
            drop(transaction);
            keep(app, claim, late).await?;
            let detail = "The coupon is confirmed already, and not by this payment.";
            Err(named(Problem::new(Code::AlreadyConfirmed, detail), coupon))
        }
        Confirmation::Unsure => Err(unsure()),
        Confirmation::NotFound => Err(coupon_json::not_found()),
    }
}

/// Records a payment that the shop is to refund, before it is told so: a refusal that was answered is on the list.
async fn keep(app: &App, claim: &Claim, late: Option<Late<'_>>) -> Result<(), Problem> {
    // Nobody pays for what was never held.
    let Some(late) = late.filter(|_| claim.template.hold.holds()) else { return Ok(()) };
    let mut connection = connect::acquire(&app.pool).await?;
    Ok(late_payment::record(&mut connection, &late).await?)
}

/// The hold is over by this process's clock, but not by MySQL's.
pub(super) fn unsure() -> Problem {
    let detail = "Whether the hold is over is not certain. Send the request again.";
    Problem::new(Code::HoldUnsure, detail)
}

impl PaymentRequest {
    fn check(&self) -> Result<(), Problem> {
        let invalid = |field: &str, problem: &str| {
            Problem::new(Code::InvalidPayment, format!("{field}: {problem}.")).with("field", field)
        };
        if let Some(wrong) = text::wrong_reference(&self.payment_ref, limit::PAYMENT_REF_CHARS_MAX)
        {
            return Err(invalid("payment_ref", &wrong));
        }
        find::checked(self.coupons.as_deref(), |problem| invalid("coupons", problem))
    }
}

impl ConfirmedBody {
    fn of(claim: ClaimId, payment_ref: String, made: &Made, now: DateTime<Utc>) -> Self {
        Self {
            claim_id: claim.to_string(),
            payment_ref,
            confirmed_at: instant(made.confirmed_at),
            coupons: made.coupons.iter().map(|coupon| CouponJson::of(coupon, now)).collect(),
        }
    }
}
