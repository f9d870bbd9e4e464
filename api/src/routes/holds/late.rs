//! Late payments, which the shop refunds: `GET /v1/late-payments`, and `POST /v1/late-payments/refunded`.

use std::{fmt, str::FromStr};

use axum::{Json, extract::State};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use coupon::{ClaimId, TemplateId};
use mysql_store::{
    connect,
    late_payment::{self, LatePayment, Position, Refusal, Wanted},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, NoCursor, Page, Part},
        extract::{Body, Params},
        instant::instant,
        schemas::{Cursor, Id, Instant},
    },
    problem::Problem,
    routes::{
        audit::{self, Action},
        operators::{desk::changes::valid_reason, templates},
    },
    state::App,
};

/// A payment of held coupons that was refused for good.
#[derive(Serialize, ToSchema)]
#[schema(as = LatePayment, examples(example))]
pub(crate) struct LateJson {
    #[schema(value_type = Id)]
    claim_id: String,
    payment_ref: String,
    #[schema(value_type = Id)]
    template_id: String,
    #[schema(value_type = Id)]
    user_id: String,
    /// The coupon that it was refused for.
    #[schema(value_type = Id)]
    coupon_id: String,
    /// Code of the refusal.
    #[schema(pattern = "^(HOLD_LAPSED|ALREADY_CONFIRMED|COUPON_CANCELLED)$")]
    code: &'static str,
    /// When the hold had lapsed. Null: it was refused for another reason.
    #[schema(value_type = Option<Instant>, required = true)]
    lapsed_at: Option<String>,
    /// When it was refused first.
    #[schema(value_type = Instant)]
    refused_at: String,
    /// Who sent it: `key:` and the id of the key, `platform` for the platform's own key, or `topic` for a message.
    actor: String,
    /// When somebody said that it was refunded. Null: nobody has.
    #[schema(value_type = Option<Instant>, required = true)]
    refunded_at: Option<String>,
    /// Who said so: `key:` and the id of the key, or `platform`. Null: nobody has.
    #[schema(required = true)]
    refunded_by: Option<String>,
    /// The claim of which the same reference has confirmed other coupons since: refund no more than the rest. Null: it has
    /// confirmed nothing.
    #[schema(value_type = Option<Id>, required = true)]
    confirmed_claim_id: Option<String>,
}

fn example() -> Value {
    json!({
        "claim_id": "2123985068924862465", "payment_ref": "pay-77213", "template_id": "2123985067360387072",
        "user_id": "42", "coupon_id": "2123985068924862464", "code": "HOLD_LAPSED",
        "lapsed_at": "2026-11-27T08:10:01.207Z", "refused_at": "2026-11-27T08:10:03.500Z",
        "actor": "key:2123985067360387001", "refunded_at": null, "refunded_by": null, "confirmed_claim_id": null
    })
}

/// A late payment that was refunded.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Refunded, examples(json!({
    "claim_id": "2123985068924862465", "payment_ref": "pay-77213", "reason": "Refund 4711 of the bank."
})))]
pub(crate) struct RefundedRequest {
    /// The claim that it was for.
    #[schema(value_type = Id)]
    claim_id: ClaimId,
    #[schema(min_length = 1, max_length = 64)]
    payment_ref: String,
    /// For people who read the audit record.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    template_id: Option<TemplateId>,
    refunded: Option<bool>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A position as clients send it back: the claim, a dot, and the reference in base64url, since a damaged row's may be any
/// text.
struct LateCursor(Position);

impl fmt::Display for LateCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.claim, URL_SAFE_NO_PAD.encode(&self.0.payment_ref))
    }
}

impl FromStr for LateCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let (claim, payment_ref) = text.split_once('.').ok_or(NoCursor)?;
        let claim = claim.parse().map_err(|_| NoCursor)?;
        let payment_ref = URL_SAFE_NO_PAD.decode(payment_ref).map_err(|_| NoCursor)?;
        let payment_ref = String::from_utf8(payment_ref).map_err(|_| NoCursor)?;
        let cursor = Self(Position { claim, payment_ref });
        // Accept only the form that we write.
        if cursor.to_string() == text { Ok(cursor) } else { Err(NoCursor) }
    }
}

/// `GET /v1/late-payments`
#[utoipa::path(
    get,
    path = "/v1/late-payments",
    operation_id = "list_late_payments",
    tag = "Support",
    summary = "List payments that came too late, to refund them",
    description = "Payments of held coupons that were refused for good, those for the newest claims first.",
    security(("operator_key" = [])),
    params(
        ("template_id" = Option<Id>, Query, description = "Only those for coupons of this template."),
        ("refunded" = Option<bool>, Query, description = "`true`: those that were refunded, instead of those that were not."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the first.")
    ),
    responses((status = 200, description = "A page.", body = Page<LateJson>)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<LateJson>>, Problem> {
    let limit = cursor::limit(params.limit)?;
    let behind: Option<LateCursor> = cursor::parse(params.cursor.as_ref())?;
    if let Some(template) = params.template_id {
        templates::owned(&app, operator, template).await?;
    }
    let wanted = Wanted {
        merchant: operator.merchant_id,
        template: params.template_id,
        refunded: params.refunded.unwrap_or(false),
    };
    let rows = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        let behind = behind.as_ref().map(|cursor| &cursor.0);
        // One extra row shows whether there is a next page.
        late_payment::page(&mut connection, wanted, behind, limit + 1).await
    });
    let Part { rows, unreadable, next } = Part::of(rows.await?, limit, Position::of);
    let next = next.map(|position| LateCursor(position).to_string());
    let named = |position: Position| format!("{}.{}", position.claim, position.payment_ref);
    let page = Page::new(rows.iter().map(LateJson::of).collect(), next);
    Ok(Json(page.without(unreadable.into_iter().map(named))))
}

/// `POST /v1/late-payments/refunded`
#[utoipa::path(
    post,
    path = "/v1/late-payments/refunded",
    operation_id = "mark_late_payment_refunded",
    tag = "Support",
    summary = "Mark a late payment as refunded",
    description = "It moves no money: the shop has refunded it elsewhere. The same call again is the same answer, and the first reason stays.",
    security(("operator_key" = [])),
    request_body = RefundedRequest,
    responses((status = 200, description = "It is marked.", body = LateJson)),
    extensions(("x-problems" = json!("NOT_FOUND INVALID_CHANGE HOURLY_QUOTA_EXCEEDED")))
)]
pub(crate) async fn refunded(
    State(app): State<App>,
    operator: Operator,
    Body(request): Body<RefundedRequest>,
) -> Result<Json<LateJson>, Problem> {
    valid_reason(&request.reason)?;
    let merchant = operator.merchant_id;
    let claim = request.claim_id;
    let payment_ref = request.payment_ref.as_str();
    let work = || async {
        let mut transaction = connect::begin(&app.pool).await?;
        let actor = operator.actor();
        let now = app.clock.now();
        let marks = late_payment::mark_refunded(
            &mut transaction,
            merchant,
            claim,
            payment_ref,
            &actor,
            now,
        );
        let is_new = marks.await?;
        let late = late_payment::find(&mut transaction, merchant, claim, payment_ref).await?;
        let Some(late) = late else {
            let detail = "You have no such late payment.";
            return Err(Problem::new(Code::NotFound, detail));
        };
        if is_new {
            let action = Action {
                merchant_id: merchant,
                name: "late_payment.refunded".to_owned(),
                target: format!("claims/{claim}"),
                before: None,
                after: Some(json!({ "payment_ref": payment_ref, "reason": request.reason })),
            };
            audit::record(&app, operator, &mut transaction, action).await?;
            app.commit(transaction).await?;
            info!(claim.id = %claim, "a late payment was refunded");
        }
        Ok(late)
    };
    let late = connect::within(connect::retried(work, Problem::is_contended)).await?;
    Ok(Json(LateJson::of(&late)))
}

impl LateJson {
    fn of(late: &LatePayment) -> Self {
        Self {
            claim_id: late.claim_id.to_string(),
            payment_ref: late.payment_ref.clone(),
            template_id: late.template_id.to_string(),
            user_id: late.user_id.to_string(),
            coupon_id: late.coupon_id.to_string(),
            code: code(late.refusal).word(),
            lapsed_at: late.lapsed_at.map(instant),
            refused_at: instant(late.refused_at),
            actor: late.actor.clone(),
            refunded_at: late.refunded_at.map(instant),
            refunded_by: late.refunded_by.clone(),
            confirmed_claim_id: late.confirmed_claim.map(|id| id.to_string()),
        }
    }
}

/// The code that the payment was answered.
fn code(refusal: Refusal) -> Code {
    match refusal {
        Refusal::HoldLapsed => Code::HoldLapsed,
        Refusal::AlreadyConfirmed => Code::AlreadyConfirmed,
        Refusal::CouponCancelled => Code::CouponCancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_no_other_text_is_one() {
        for payment_ref in ["a.b c", "x\ny", ""] {
            let position = Position { claim: ClaimId(7), payment_ref: payment_ref.to_owned() };
            let text = LateCursor(position.clone()).to_string();
            let read: LateCursor = text.parse().unwrap();
            assert_eq!(read.0, position, "{text}");
        }
        for wrong in ["", "7", "07.YQ", "-7.YQ", "x.YQ", "7.YQ ", "7.YQ==", "7.YR", "7._w"] {
            assert!(wrong.parse::<LateCursor>().is_err(), "{wrong:?}");
        }
    }
}
