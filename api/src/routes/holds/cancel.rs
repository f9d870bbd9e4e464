//! `POST /v1/claims/{id}/cancel`: a user gives held coupons up, or a shop takes held and confirmed ones back. Their units
//! and numbers come back, once.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, TemplateId, text};
use mysql_store::{
    checkout,
    connect::{self, Transaction},
    desk, redemption,
    returns::{Cause, GivenBack, Return},
    settings,
    user_coupon::UserCoupon,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};
use utoipa::ToSchema;

use super::{
    confirm::unsure,
    find::{self, Claim},
    metric,
};
use crate::{
    auth::{Operator, UserOrShop},
    code::Code,
    http::{
        extract::{Body, Params, PathId},
        schemas::Id,
    },
    problem::Problem,
    routes::{
        audit::{self, Action},
        bodies::coupon_json::{self, CouponJson},
        operators::{claim_state::Where, stock_movements::REASON_CHARS_MAX},
        shop::checkout::named,
    },
    state::App,
};

/// Which coupons of a claim are cancelled, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCancellation, examples(json!({ "reason": "The payment was declined." })))]
pub(crate) struct CancelRequest {
    /// The reason, for people who read the ledger.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    reason: String,
    /// The coupons. Absent: all of the claim, as issued.
    #[schema(value_type = Vec<Id>, required = false, min_items = 1, max_items = 100)]
    coupons: Option<Vec<CouponId>>,
}

/// A cancellation. It consists of values that never change: the same call again has the same bytes.
#[derive(Serialize, ToSchema)]
#[schema(as = CancelledClaim, examples(example))]
pub(crate) struct CancelledBody {
    #[schema(value_type = Id)]
    claim_id: String,
    /// The cancelled coupons.
    coupons: Vec<CouponJson>,
}

fn example() -> Value {
    json!({
        "claim_id": "2123985068924862465",
        "coupons": [{
            "id": "2123985068924862464", "template_id": "2123985067360387072",
            "claim_id": "2123985068924862465", "status": "cancelled",
            "claimed_at": "2026-11-27T08:00:01.207Z", "valid_from": "2026-11-27T08:00:01.207Z",
            "valid_until": "2026-11-27T08:10:01.207Z"
        }]
    })
}

/// `POST /v1/claims/{id}/cancel`
#[utoipa::path(
    post,
    path = "/v1/claims/{id}/cancel",
    operation_id = "cancel_claim",
    tag = "Claims",
    summary = "Give held coupons up, or take a claim's coupons back",
    description = "Its user cancels held coupons, the shop, with a key of the scope `redeem`, also confirmed ones that are \
                   not used. All of them or none. Their stock comes back, and the user's limit counts them no more. The \
                   same call again is the same answer. A queued claim that has not landed is answered 503 \
                   `CLAIM_PENDING`: cancel it when it has.",
    security(("token" = []), ("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The claim."),
        ("template" = Option<Id>, Query, description = "Its template. Needed as long as the claim has not landed.")
    ),
    request_body = CancelRequest,
    responses((status = 200, description = "They are cancelled.", body = CancelledBody)),
    extensions(("x-problems" = json!(
        "RATE_LIMITED INVALID_CHANGE CLAIM_NOT_FOUND COUPON_NOT_FOUND TEMPLATE_NOT_FOUND TEMPLATE_NEEDED HOLD_LAPSED \
         ALREADY_CONFIRMED COUPON_USED COUPON_EXPIRED COUPON_CANCELLED HOLD_UNSURE CLAIM_PENDING TOO_MANY_LOOKUPS GATE_UNAVAILABLE OVERLOADED"
    )))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    who: UserOrShop,
    PathId(id): PathId<ClaimId>,
    Params(params): Params<Where>,
    Body(request): Body<CancelRequest>,
) -> Response {
    let work = cancelled(&app, who, id, params.template, &request);
    match who {
        // A cancellation counts as a claim, so that repeated claims and cancellations are limited.
        UserOrShop::User(user) => Box::pin(app.claim_limit.limited(user, work)).await,
        UserOrShop::Shop(_) => work.await.into_response(),
    }
}

async fn cancelled(
    app: &App,
    who: UserOrShop,
    id: ClaimId,
    template: Option<TemplateId>,
    request: &CancelRequest,
) -> Result<Json<CancelledBody>, Problem> {
    request.check()?;
    let claim = match who {
        UserOrShop::User(user) => find::of_user(app, user, id, template).await?,
        UserOrShop::Shop(shop) => find::of_shop(app, shop, id, template).await?,
    };
    let coupons = claim.coupons(request.coupons.as_deref())?;
    let work = || try_cancel(app, who, &claim, &coupons, &request.reason);
    let ended = connect::within(connect::retried(work, Problem::is_contended)).await;
    metric::count("cancel", &ended);
    let (body, replayed) = ended?;
    if !replayed && let Err(error) = app.gates.catch_up(claim.template.id).await {
        let error = runtime::report(&error);
        warn!(template.id = %claim.template.id, error, "the gate will hear of a return later");
    }
    Ok(Json(body))
}

/// Cancels the coupons. Returns whether an earlier call had done so.
async fn try_cancel(
    app: &App,
    who: UserOrShop,
    claim: &Claim,
    ids: &[CouponId],
    reason: &str,
) -> Result<(CancelledBody, bool), Problem> {
    let template = &claim.template;
    // Only the gate of a template with holds knows users whose coupons all came back.
    if !template.hold.holds() {
        let detail =
            "The template does not hold its coupons, so none comes back. The shop may revoke them.";
        return Err(Problem::new(Code::InvalidChange, detail).with("field", "hold_ms"));
    }
    let mut transaction = connect::begin(&app.pool).await?;
    let before = checkout::lock_rows(&mut transaction, template.merchant_id, ids).await?;
    let now = app.clock.now();
    let server_now = settings::server_time(&mut transaction).await?;
    let mut open = Vec::new();
    for coupon in &before {
        if !stands(coupon, who, now, server_now).map_err(|why| named(why, coupon.id))? {
            open.push(coupon.id);
        } else if let Some(other) = desk::last_replacement(&mut transaction, coupon.id).await? {
            return Err(named(replaced(&other), coupon.id));
        }
    }
    if open.is_empty() {
        return Ok((CancelledBody::of(claim, &before, now), true));
    }
    let (cause, actor) = match who {
        UserOrShop::User(_) => (Cause::User, redemption::USER.to_owned()),
        UserOrShop::Shop(shop) => (Cause::Shop, shop.actor()),
    };
    let returned_stock = template.hold.returned_stock;
    let back = Return { template: template.id, returned_stock, cause, reason, actor: &actor, now };
    let back = back.of(&mut transaction, &open).await?;
    // A deadline may have passed since the clock was read: look again.
    let back = back.filter(|back| back.coupons.len() == open.len());
    let back = back.ok_or_else(Problem::overtaken)?;
    let ended = |coupon: &UserCoupon| back.coupons.iter().find(|after| after.id == coupon.id);
    let after: Vec<UserCoupon> =
        before.iter().map(|coupon| ended(coupon).unwrap_or(coupon).clone()).collect();
    let body = CancelledBody::of(claim, &after, now);
    if let UserOrShop::Shop(shop) = who {
        record(app, shop, &mut transaction, claim, &before, &back, reason, now).await?;
    }
    app.commit(transaction).await?;
    info!(claim.id = %claim.landed.id, seq = back.seq, coupons = open.len(), "cancelled coupons");
    Ok((body, false))
}

/// Returns whether a coupon is cancelled already, or why it cannot be. Both times are now, by this process's clock and by
/// the server's.
fn stands(
    coupon: &UserCoupon,
    who: UserOrShop,
    now: DateTime<Utc>,
    server_now: DateTime<Utc>,
) -> Result<bool, Problem> {
    let is_over = coupon.valid_until <= server_now;
    let is_unsure = coupon.valid_until <= now;
    match coupon.status {
        CouponStatus::Cancelled => Ok(true),
        CouponStatus::Lapsed => Err(coupon_json::lapsed(coupon)),
        CouponStatus::Held if is_over => Err(coupon_json::lapsed(coupon)),
        CouponStatus::Held if is_unsure => Err(unsure()),
        CouponStatus::Held => Ok(false),
        CouponStatus::Used => {
            let detail = "The coupon is used for an order. The shop may give it back first.";
            Err(Problem::new(Code::CouponUsed, detail))
        }
        CouponStatus::Expired => Err(coupon_json::expired(coupon)),
        CouponStatus::Unused if is_over || is_unsure => Err(coupon_json::expired(coupon)),
        CouponStatus::Unused => match who {
            UserOrShop::Shop(_) => Ok(false),
            UserOrShop::User(_) => {
                let detail = "The coupon is confirmed. Only the shop can cancel it now.";
                Err(Problem::new(Code::AlreadyConfirmed, detail))
            }
        },
    }
}

/// The coupon was replaced by one that its user still has. Were the claim answered as cancelled, the user would keep
/// that one.
fn replaced(other: &UserCoupon) -> Problem {
    let detail = format!(
        "The coupon was replaced by {}, which its user still has. Revoke that one, after giving it back if it is used; \
         then cancel again.",
        other.id
    );
    Problem::new(Code::CouponCancelled, detail).with("replaced_by", other.id.to_string())
}

/// Writes the line of the audit record.
async fn record(
    app: &App,
    shop: Operator,
    transaction: &mut Transaction,
    claim: &Claim,
    before: &[UserCoupon],
    back: &GivenBack,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    let shown = |coupons: &[UserCoupon]| {
        let coupons: Vec<_> = coupons.iter().map(|coupon| CouponJson::of(coupon, now)).collect();
        json!(coupons)
    };
    let returned = |coupon: &&UserCoupon| back.coupons.iter().any(|after| after.id == coupon.id);
    let before: Vec<UserCoupon> = before.iter().filter(returned).cloned().collect();
    let action = Action {
        merchant_id: shop.merchant_id,
        name: "claim.cancel".to_owned(),
        target: format!("claims/{}", claim.landed.id),
        before: Some(json!({ "coupons": shown(&before) })),
        after: Some(json!({
            "coupons": shown(&back.coupons), "user_id": claim.landed.user_id.to_string(),
            "seq": back.seq, "reason": reason,
        })),
    };
    audit::record(app, shop, transaction, action).await?;
    Ok(())
}

impl CancelRequest {
    fn check(&self) -> Result<(), Problem> {
        let invalid = |field: &str, problem: &str| {
            Problem::new(Code::InvalidChange, format!("{field}: {problem}.")).with("field", field)
        };
        if let Some(wrong) = text::wrong(&self.reason, REASON_CHARS_MAX) {
            return Err(invalid("reason", &wrong));
        }
        find::checked(self.coupons.as_deref(), |problem| invalid("coupons", problem))
    }
}

impl CancelledBody {
    fn of(claim: &Claim, coupons: &[UserCoupon], now: DateTime<Utc>) -> Self {
        Self {
            claim_id: claim.landed.id.to_string(),
            coupons: coupons.iter().map(|coupon| CouponJson::of(coupon, now)).collect(),
        }
    }
}
