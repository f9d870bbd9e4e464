//! `POST /v1/redemptions`: one or several coupons of one user for one order, all or none.
//!
//! The order's name identifies the request. Its row is locked first, or created last, so of two equal requests the second
//! finds what the first has stored and answers the same bytes. Coupons, redemptions, order and audit lines change in one
//! transaction. New orders that are plain cases share one ([`super::orders_together`]); here are all others.

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use coupon::{
    CouponId, UserId, limit,
    money::{Applied, Spend},
};
use mysql_store::{
    connect,
    redemption::{self, Money},
    redemption_order::{self, Hold, Order, Redeemed},
    settings,
    user_coupon::{self, Use},
};
use serde::Deserialize;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::{Operator, Redeemer},
    code::Code,
    http::{
        extract::{Body, PathId},
        schemas::Id,
    },
    problem::Problem,
    routes::{
        audit::idempotency::REPLAYED,
        shop::{
            checkout::{self, Change, LockedRow, order_of},
            judge::{self, Clocks, OrderRedemption},
            redemption::order_ref,
            redemption_json::{RedemptionBody, StateBody},
        },
    },
    shop::redemption::Wanted,
    state::App,
};

/// The coupons that an order redeems. Money is in minor units of `currency`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRedemption, examples(json!({
    "order_ref": "order-2041", "user_id": "42", "amount": 5000, "currency": "EUR",
    "coupons": ["2123985068924862464", "2123985068924862470"]
})))]
pub(crate) struct NewRedemption {
    /// The shop's name of the order, compared byte by byte. No control or invisible characters, and no space at its
    /// ends.
    #[schema(min_length = 1, max_length = 64)]
    order_ref: String,
    /// The coupons' user. Absent: whoever has them, but all of them.
    #[schema(value_type = Option<Id>)]
    user_id: Option<String>,
    /// What the order costs before any discount.
    #[schema(minimum = 0, maximum = 1000000000000i64)]
    amount: i64,
    /// The currency as an ISO 4217 code.
    #[schema(pattern = "^[A-Z]{3}$", examples("EUR"))]
    currency: String,
    /// In any order. A coupon that is named twice counts once.
    #[schema(value_type = Vec<Id>, min_items = 1, max_items = 20)]
    coupons: Vec<CouponId>,
}

/// `POST /v1/redemptions`
#[utoipa::path(
    post,
    path = "/v1/redemptions",
    operation_id = "redeem",
    tag = "Redemption",
    summary = "Redeem coupons of one user for one order, all or none",
    security(("operator_key" = [])),
    request_body = NewRedemption,
    responses(
        (status = 201, description = "They are used. The same order with the same coupons, amount and currency is the same answer.",
            body = RedemptionBody,
            headers(("Idempotency-Replayed" = String, description = "`true`: the answer of an earlier request.")))
    ),
    extensions(("x-problems" = json!(
        "INVALID_REDEMPTION INVALID_USER_ID INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED \
         COUPON_NOT_YET_VALID COUPON_LOCKED CURRENCY_MISMATCH BELOW_MINIMUM NOT_STACKABLE ORDER_REDEEMED \
         ORDER_CANCELLED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED OVERLOADED"
    )))
)]
pub(crate) async fn redeem(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    Body(request): Body<NewRedemption>,
) -> Result<Response, Problem> {
    let asked = request.read()?;
    let redeemed = async {
        if let Some(made) = app.batches.redemptions.together(wanted(&asked, shop)).await {
            let order_ref = &request.order_ref;
            return Ok((RedemptionBody::of(order_ref, &made.redeemed, &made.redemptions), false));
        }
        let redeem = || try_redeem(&app, shop, &request.order_ref, &asked);
        connect::retried(redeem, Problem::is_contended).await
    };
    let (body, replayed) = connect::within(redeemed).await?;
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Redeems, or finds that the same was redeemed before.
async fn try_redeem(
    app: &App,
    shop: Operator,
    order_ref: &str,
    asked: &OrderRedemption<'_>,
) -> Result<(RedemptionBody, bool), Problem> {
    let mut transaction = connect::begin(&app.pool).await?;
    let now = app.clock.now();
    let name = order_of(shop, order_ref);
    let order = redemption_order::hold(&mut transaction, name, Hold::Alone).await?;
    if let Some(order) = &order
        && let Some(replay) = judge::order(&mut transaction, shop, order, asked).await?
    {
        return Ok((RedemptionBody::of(order_ref, &replay.redeemed, &replay.redemptions), true));
    }
    let locked = checkout::lock_rows(&mut transaction, shop, &asked.coupons, asked.user).await?;
    if order.is_none() {
        // Equal requests for a new order come here one after the other, and all but the first must answer what the first
        // stored.
        if redemption_order::find(&mut transaction, name).await?.is_some() {
            return Err(Problem::overtaken());
        }
        // Single uses from before orders had rows are found by their redemptions.
        judge::order(&mut transaction, shop, &Order::default(), asked).await?;
    }
    let user = one_user(&locked)?;
    let server = settings::server_time(&mut transaction).await?;
    let clocks = Clocks { here: now, server };
    let applied = judge::coupons(&mut transaction, shop, &locked, asked, clocks).await?;
    // By id, so that concurrent calls lock in one order.
    let mut used = Vec::with_capacity(locked.len());
    for LockedRow { coupon, .. } in &locked {
        let id = coupon.id;
        match user_coupon::use_for_order(&mut transaction, user, id, order_ref, now).await? {
            Use::Used(after) => used.push(after),
            // It expired since: the next attempt says so.
            _ => return Err(Problem::overtaken()),
        }
    }
    let Spend { amount, currency } = asked.spend;
    for Applied { coupon, discount } in applied {
        let before = locked.iter().find(|locked| locked.coupon.id == coupon);
        let after = used.iter().find(|after| after.id == coupon);
        let Some((before, after)) = before.zip(after) else { continue };
        let money = Money { amount, discount, currency: currency.to_owned() };
        let change = Change { before: &before.coupon, after, order_ref, at: now };
        change.used(app, shop, &mut transaction, Some(&money)).await?;
    }
    let digest = asked.digest();
    let currency = currency.to_owned();
    if order.is_none() {
        checkout::create_order(&mut transaction, name, now).await?;
    }
    let redeemed = Redeemed { digest, user_id: user, amount, currency, at: now };
    redemption_order::record(&mut transaction, name, &redeemed).await?;
    // As stored: every later answer is made of the same values.
    let stored = redemption_order::find(&mut transaction, name).await?;
    let redeemed = stored.and_then(|order| order.redeemed).unwrap_or(redeemed);
    let own = redemption::together(&mut transaction, name, user).await?;
    let body = RedemptionBody::of(order_ref, &redeemed, &own);
    app.commit(transaction).await?;
    info!(coupons = locked.len(), "an order redeemed coupons");
    Ok((body, false))
}

/// Returns the user of all of these coupons.
fn one_user(locked: &[LockedRow]) -> Result<UserId, Problem> {
    let users: Vec<UserId> = locked.iter().map(|locked| locked.coupon.user_id).collect();
    match users.first() {
        Some(first) if users.iter().all(|user| user == first) => Ok(*first),
        _ => Err(checkout::invalid("coupons", "name coupons of one user only")),
    }
}

/// `GET /v1/redemptions/{order_ref}`
#[utoipa::path(
    get,
    path = "/v1/redemptions/{order_ref}",
    operation_id = "get_redemption",
    tag = "Redemption",
    summary = "Get what an order has redeemed, and what of it stands",
    security(("operator_key" = [])),
    params(("order_ref" = String, Path, min_length = 1, max_length = 64, description = "The shop's name of the order, percent-encoded.")),
    responses((status = 200, description = "The order's coupons. Those used at a till are not among them.", body = StateBody)),
    extensions(("x-problems" = json!("INVALID_ORDER_REF REDEMPTION_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(name): PathId<String>,
) -> Result<Json<StateBody>, Problem> {
    let name = order_ref(&name)?;
    let read = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        let order = redemption_order::find(&mut connection, order_of(shop, name)).await?;
        let mut made = redemption::of_order(&mut connection, order_of(shop, name)).await?;
        if let Some(redeemed) = order.as_ref().and_then(|order| order.redeemed.as_ref()) {
            // They may be missing from the first ones.
            let name = order_of(shop, name);
            made.extend(redemption::together(&mut connection, name, redeemed.user_id).await?);
            made.sort_unstable_by_key(|one| one.id);
            made.dedup_by_key(|one| one.id);
        }
        let all = redemption::count(&mut connection, order_of(shop, name)).await?;
        Ok::<_, Problem>((order, made, all))
    });
    let (order, made, all) = read.await?;
    if order.is_none() && made.is_empty() {
        let detail = "No order of yours of this name has redeemed a coupon.";
        return Err(Problem::new(Code::RedemptionNotFound, detail));
    }
    // Single uses from before orders had rows left no row.
    Ok(Json(StateBody::of(name, &order.unwrap_or_default(), &made, all)))
}

impl NewRedemption {
    fn read(&self) -> Result<OrderRedemption<'_>, Problem> {
        let order_ref = order_ref(&self.order_ref)?;
        let user = self.user_id.as_deref().map(checkout::user).transpose()?;
        let spend = checkout::spend(self.amount, &self.currency)?;
        let mut coupons = self.coupons.clone();
        coupons.sort_unstable();
        coupons.dedup();
        let most = limit::ORDER_COUPONS_MAX;
        if coupons.is_empty() || coupons.len() > most {
            return Err(checkout::invalid("coupons", &format!("name 1 to {most}")));
        }
        Ok(OrderRedemption { order_ref: Some(order_ref), user, spend, coupons })
    }
}

/// Returns the redemption for the queue.
fn wanted(asked: &OrderRedemption<'_>, shop: Operator) -> Wanted {
    Wanted {
        shop,
        order_ref: asked.order_ref.unwrap_or_default().to_owned(),
        user: asked.user,
        amount: asked.spend.amount,
        currency: asked.spend.currency.to_owned(),
        coupons: asked.coupons.clone(),
        digest: asked.digest(),
    }
}
