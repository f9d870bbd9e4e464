//! `POST /v1/coupons/{id}/validate`: says, before the order is placed, whether a coupon fits it and what it takes off.
//! Changes nothing and promises nothing: until the redemption another order may be faster, unless a lock keeps the
//! coupon.

use axum::{Json, extract::State};
use coupon::{CouponId, UserId, money::Spend};
use mysql_store::{
    MySqlConnection,
    checkout::{self as store, Terms},
    connect, redemption_order, settings,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    auth::{Operator, Redeemer},
    code::Code,
    http::{
        extract::{Body, PathId},
        schemas::{self, Id},
    },
    problem::Problem,
    routes::{
        bodies::coupon_json,
        shop::{
            checkout::{self, LockedRow, order_of},
            judge::{self, Clocks, OrderRedemption},
            redemption::order_ref,
        },
    },
    state::App,
};

/// An order that a coupon may be used for. Money is in minor units of `currency`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PlannedOrder, examples(json!({ "user_id": "42", "amount": 5000, "currency": "EUR" })))]
pub(crate) struct ValidationRequest {
    /// The coupon's user. Absent: whoever has it.
    #[schema(value_type = Option<Id>)]
    user_id: Option<String>,
    /// The shop's name of the order, if it has one yet.
    #[schema(min_length = 1, max_length = 64)]
    order_ref: Option<String>,
    /// What the order costs before any discount.
    #[schema(minimum = 0, maximum = 1000000000000i64)]
    amount: i64,
    /// The currency as an ISO 4217 code.
    #[schema(pattern = "^[A-Z]{3}$", examples("EUR"))]
    currency: String,
}

/// Whether the coupon fits the order, alone. It also fits an order that has redeemed just it, which a redemption answers
/// again.
#[derive(Serialize, ToSchema)]
#[schema(as = Validation, examples(example))]
pub(crate) struct ValidationBody {
    #[schema(value_type = Id)]
    coupon_id: String,
    #[schema(value_type = schemas::DiscountKind)]
    kind: &'static str,
    /// The order's.
    currency: String,
    valid: bool,
    /// What it takes off, in minor units; 0 for free shipping. Null: it does not fit.
    #[schema(required = true)]
    discount: Option<i64>,
    /// Null: it does not fit.
    #[schema(required = true)]
    left_to_pay: Option<i64>,
    /// The code that a redemption would be refused with. Null: it fits.
    #[schema(required = true)]
    code: Option<&'static str>,
    /// Why it does not fit, for people.
    #[schema(required = true)]
    detail: Option<String>,
    /// Of a cancelled coupon: the one that its user has in its place, and can use. Absent otherwise.
    #[schema(value_type = Option<Id>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<Value>,
}

/// Example of an answer, for the OpenAPI document.
fn example() -> Value {
    json!({
        "coupon_id": "2123985068924862464", "kind": "amount_off", "currency": "EUR", "valid": true,
        "discount": 500, "left_to_pay": 4_500, "code": null, "detail": null,
    })
}

/// `POST /v1/coupons/{id}/validate`
#[utoipa::path(
    post,
    path = "/v1/coupons/{id}/validate",
    operation_id = "validate_coupon",
    tag = "Redemption",
    summary = "Look whether a coupon fits an order, and what it takes off",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The coupon, of a template of one's own.")),
    request_body = ValidationRequest,
    responses((status = 200, description = "Whether it fits, or why not. Nothing is changed.", body = ValidationBody)),
    extensions(("x-problems" = json!("INVALID_REDEMPTION INVALID_USER_ID INVALID_ORDER_REF COUPON_NOT_FOUND")))
)]
pub(crate) async fn validate(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(id): PathId<CouponId>,
    Body(request): Body<ValidationRequest>,
) -> Result<Json<ValidationBody>, Problem> {
    let asked = OrderRedemption {
        order_ref: request.order_ref.as_deref().map(order_ref).transpose()?,
        user: request.user_id.as_deref().map(checkout::user).transpose()?,
        spend: checkout::spend(request.amount, &request.currency)?,
        coupons: vec![id],
    };
    let looked = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        let row = find(&mut connection, shop, id, asked.user).await?;
        let taken = judged(&app, &mut connection, shop, &row, &asked).await;
        Ok::<_, Problem>((row.terms, taken))
    });
    let (terms, taken) = looked.await?;
    match taken {
        Err(failed) if failed.code() == Code::StoreUnavailable => Err(failed),
        taken => Ok(Json(ValidationBody::of(&terms, asked.spend, taken))),
    }
}

/// Reads the shop's coupon and its terms. Locks nothing.
async fn find(
    connection: &mut MySqlConnection,
    shop: Operator,
    id: CouponId,
    user: Option<UserId>,
) -> Result<LockedRow, Problem> {
    let coupon = store::find(connection, shop.merchant_id, id).await?;
    let coupon = coupon.filter(|coupon| checkout::is_of(coupon, user));
    let terms = store::terms(connection, &[id]).await?.into_iter().next();
    let (coupon, terms) = coupon.zip(terms).ok_or_else(coupon_json::not_found)?;
    Ok(LockedRow { coupon, terms })
}

/// Returns what a redemption of the coupon alone would take off now, or has taken off for just this order.
async fn judged(
    app: &App,
    connection: &mut MySqlConnection,
    shop: Operator,
    row: &LockedRow,
    asked: &OrderRedemption<'_>,
) -> Result<i64, Problem> {
    if let Some(order_ref) = asked.order_ref {
        let order = redemption_order::find(connection, order_of(shop, order_ref)).await?;
        let order = order.unwrap_or_default();
        if let Some(replay) = judge::order(connection, shop, &order, asked).await? {
            let moneys = replay.redemptions.iter().filter_map(|one| one.money.as_ref());
            return Ok(moneys.map(|money| money.discount).sum());
        }
    }
    let here = app.clock.now();
    let server = settings::server_time(connection).await?;
    let rows = std::slice::from_ref(row);
    let applied = judge::coupons(connection, shop, rows, asked, Clocks { here, server }).await?;
    Ok(applied.iter().map(|one| one.discount).sum())
}

impl ValidationBody {
    fn of(terms: &Terms, spend: Spend<'_>, taken: Result<i64, Problem>) -> Self {
        let discount = taken.as_ref().ok().copied();
        let problem = taken.err();
        let replaced_by = problem.as_ref().and_then(|one| one.member("replaced_by").cloned());
        let (code, detail) = problem.map(Problem::reason).unzip();
        Self {
            coupon_id: terms.coupon.to_string(),
            kind: terms.discount.kind.word(),
            currency: spend.currency.to_owned(),
            valid: discount.is_some(),
            discount,
            left_to_pay: discount.map(|discount| spend.amount - discount),
            code,
            detail,
            replaced_by,
        }
    }
}
