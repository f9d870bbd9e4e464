//! A coupon at checkout: used for an order, and given back when the order is cancelled.
//!
//! Each order names itself; the same call again is the same answer. A cancellation is final for its order:
//! a use of it that arrives late, from a queue or a retry, finds that and takes nothing.

use axum::{Json, extract::State};
use coupon::{CouponId, limit};
use mysql_store::{
    connect,
    user_coupon::{self, Unuse, Use, UserCoupon},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    auth::User,
    body::{Body, PathId},
    coupons::{self, CouponJson},
    instant::instant,
    openapi::Id,
    problem::Problem,
    state::App,
};

/// The order that a coupon is used for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Order, examples(json!({ "order_ref": "order-2041" })))]
pub(crate) struct OrderRequest {
    /// The shop's own name of the order, compared byte by byte; no control characters, not only spaces.
    #[schema(min_length = 1, max_length = 64)]
    order_ref: String,
}

/// `POST /v1/me/coupons/{id}/use`
#[utoipa::path(
    post,
    path = "/v1/me/coupons/{id}/use",
    operation_id = "use_coupon",
    tag = "My coupons",
    summary = "Use a coupon for an order",
    security(("token" = [])),
    params(("id" = Id, Path, description = "The coupon.")),
    request_body = OrderRequest,
    responses((status = 200, description = "It is used. The same order again is the same answer.", body = CouponJson)),
    extensions(("x-problems" = json!(
        "INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED COUPON_NOT_YET_VALID ORDER_CANCELLED"
    )))
)]
pub(crate) async fn use_coupon(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<CouponId>,
    Body(request): Body<OrderRequest>,
) -> Result<Json<CouponJson>, Problem> {
    let order_ref = order_ref(&request)?;
    let now = app.clock.now();
    let mut connection = connect::acquire(&app.pool).await?;
    let used = user_coupon::use_for_order(&mut connection, user, id, order_ref, now);
    match connect::within(used).await? {
        Use::Used(coupon) => Ok(Json(CouponJson::of(&coupon, now))),
        Use::UsedElsewhere(_) => Err(used_elsewhere()),
        Use::GivenBack(_) => Err(Problem::conflict(
            "ORDER_CANCELLED",
            "The order is cancelled",
            "This order gave the coupon back and cannot use it again. Send another `order_ref`.",
        )),
        Use::Expired(coupon) => Err(expired(&coupon)),
        Use::NotYetValid(coupon) => Err(Problem::conflict(
            "COUPON_NOT_YET_VALID",
            "The coupon is not valid yet",
            format!("The coupon is valid from {}.", instant(coupon.valid_from)),
        )
        .with("valid_from", instant(coupon.valid_from))),
        Use::NotFound => Err(coupons::not_found()),
    }
}

/// `POST /v1/me/coupons/{id}/unuse`
#[utoipa::path(
    post,
    path = "/v1/me/coupons/{id}/unuse",
    operation_id = "unuse_coupon",
    tag = "My coupons",
    summary = "Give a coupon back when its order is cancelled",
    security(("token" = [])),
    params(("id" = Id, Path, description = "The coupon.")),
    request_body = OrderRequest,
    responses((status = 200, description = "It is unused. Final for this order: it cannot use the coupon again.", body = CouponJson)),
    extensions(("x-problems" = json!(
        "INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED"
    )))
)]
pub(crate) async fn unuse_coupon(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<CouponId>,
    Body(request): Body<OrderRequest>,
) -> Result<Json<CouponJson>, Problem> {
    let order_ref = order_ref(&request)?;
    let now = app.clock.now();
    let mut connection = connect::acquire(&app.pool).await?;
    let unused = user_coupon::unuse_for_order(&mut connection, user, id, order_ref, now);
    match connect::within(unused).await? {
        Unuse::GivenBack(coupon) => Ok(Json(CouponJson::of(&coupon, now))),
        Unuse::UsedElsewhere(_) => Err(used_elsewhere()),
        Unuse::Expired(coupon) => Err(expired(&coupon)),
        Unuse::NotFound => Err(coupons::not_found()),
    }
}

/// Text that can stand in a log and on paper: no control characters, and not only spaces.
fn order_ref(request: &OrderRequest) -> Result<&str, Problem> {
    let text = request.order_ref.as_str();
    let chars = text.chars().count();
    if text.trim().is_empty()
        || chars > limit::ORDER_REF_CHARS_MAX
        || text.chars().any(char::is_control)
    {
        let most = limit::ORDER_REF_CHARS_MAX;
        let detail = format!("Use an `order_ref` of 1 to {most} characters, none of control.");
        return Err(Problem::invalid("INVALID_ORDER_REF", detail));
    }
    Ok(text)
}

fn used_elsewhere() -> Problem {
    let detail = "The coupon was used for another order.";
    Problem::conflict("COUPON_USED", "The coupon is used", detail)
}

fn expired(coupon: &UserCoupon) -> Problem {
    let at = instant(coupon.valid_until);
    let detail = format!("The coupon was valid until {at}.");
    Problem::conflict("COUPON_EXPIRED", "The coupon has expired", detail).with("valid_until", at)
}
