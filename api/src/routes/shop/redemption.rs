//! Redemption at a shop's checkout: a coupon is used for an order, and given back when the order is cancelled.
//!
//! The shop calls with a key of the scope `redeem`, and names the user and the order. The order identifies the request:
//! the same call again gets the same answer. A cancellation is final for its order: a use of it that arrives late, from
//! a queue or a retry, takes nothing. Change and audit line are one transaction.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{CouponId, UserId, limit};
use mysql_store::{
    MySqlConnection, connect,
    user_coupon::{self, Unuse, Use, UserCoupon},
};
use serde::Deserialize;
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::{Operator, Redeemer},
    code::Code,
    http::{
        extract::{Body, PathId},
        instant::instant,
        schemas::Id,
    },
    problem::Problem,
    routes::{
        audit::{self, Action},
        bodies::coupon_json::{self, CouponJson},
    },
    state::App,
};

/// The order that a user's coupon is redeemed for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UsersOrder, examples(json!({ "user_id": "42", "order_ref": "order-2041" })))]
pub(crate) struct RedemptionRequest {
    /// The coupon's user.
    #[schema(value_type = Id)]
    user_id: String,
    /// The shop's name of the order, compared byte by byte. No control or invisible characters, and not only spaces.
    #[schema(min_length = 1, max_length = 64)]
    order_ref: String,
}

/// A coupon, its user and the order, as requested.
struct Wish<'a> {
    coupon: CouponId,
    user: UserId,
    order_ref: &'a str,
}

/// `POST /v1/coupons/{id}/use`
#[utoipa::path(
    post,
    path = "/v1/coupons/{id}/use",
    operation_id = "use_coupon",
    tag = "Redemption",
    summary = "Use a user's coupon for an order",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The coupon, of a template of one's own.")),
    request_body = RedemptionRequest,
    responses((status = 200, description = "It is used. The same order again is the same answer.", body = CouponJson)),
    extensions(("x-problems" = json!(
        "INVALID_USER_ID INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED COUPON_NOT_YET_VALID \
         ORDER_CANCELLED OVERLOADED"
    )))
)]
pub(crate) async fn use_coupon(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(coupon): PathId<CouponId>,
    Body(request): Body<RedemptionRequest>,
) -> Result<Json<CouponJson>, Problem> {
    let wish = request.read(coupon)?;
    let used = connect::retried(|| try_use(&app, shop, &wish), Problem::is_contended);
    answer_use(connect::within(used).await?, app.clock.now())
}

async fn try_use(app: &App, shop: Operator, wish: &Wish<'_>) -> Result<Use, Problem> {
    let &Wish { coupon, user, order_ref } = wish;
    let mut transaction = connect::begin(&app.pool).await?;
    let before = own(&mut transaction, shop, wish).await?;
    let now = app.clock.now();
    let used = user_coupon::use_for_order(&mut transaction, user, coupon, order_ref, now).await?;
    if let Use::Used(after) = &used {
        let action = action("coupon.use", &before, after, now);
        audit::record(app, shop, &mut transaction, action).await?;
        app.commit(transaction).await?;
        info!(coupon.id = %coupon, "a shop used a coupon");
    }
    Ok(used)
}

/// `POST /v1/coupons/{id}/unuse`
#[utoipa::path(
    post,
    path = "/v1/coupons/{id}/unuse",
    operation_id = "unuse_coupon",
    tag = "Redemption",
    summary = "Give a user's coupon back when its order is cancelled",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The coupon, of a template of one's own.")),
    request_body = RedemptionRequest,
    responses((status = 200, description = "It is unused. Final for this order: it cannot use the coupon again.", body = CouponJson)),
    extensions(("x-problems" = json!(
        "INVALID_USER_ID INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED OVERLOADED"
    )))
)]
pub(crate) async fn unuse_coupon(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(coupon): PathId<CouponId>,
    Body(request): Body<RedemptionRequest>,
) -> Result<Json<CouponJson>, Problem> {
    let wish = request.read(coupon)?;
    let unused = connect::retried(|| try_unuse(&app, shop, &wish), Problem::is_contended);
    match connect::within(unused).await? {
        Unuse::GivenBack(coupon) | Unuse::Replayed(coupon) => {
            Ok(Json(CouponJson::of(&coupon, app.clock.now())))
        }
        Unuse::UsedElsewhere(_) => Err(used_elsewhere()),
        Unuse::Expired(coupon) => Err(expired(&coupon)),
        Unuse::NotFound => Err(coupon_json::not_found()),
    }
}

async fn try_unuse(app: &App, shop: Operator, wish: &Wish<'_>) -> Result<Unuse, Problem> {
    let &Wish { coupon, user, order_ref } = wish;
    let mut transaction = connect::begin(&app.pool).await?;
    let before = own(&mut transaction, shop, wish).await?;
    let now = app.clock.now();
    let unused = user_coupon::unuse_for_order(&mut transaction, user, coupon, order_ref, now);
    let unused = unused.await?;
    if let Unuse::GivenBack(after) = &unused {
        let action = action("coupon.unuse", &before, after, now);
        audit::record(app, shop, &mut transaction, action).await?;
        app.commit(transaction).await?;
        info!(coupon.id = %coupon, "a shop gave a coupon back");
    }
    Ok(unused)
}

/// Reads and locks the user's coupon, if it belongs to the shop.
async fn own(
    transaction: &mut MySqlConnection,
    shop: Operator,
    wish: &Wish<'_>,
) -> Result<UserCoupon, Problem> {
    let held = user_coupon::hold(transaction, wish.user, wish.coupon).await?;
    held.filter(|coupon| coupon.merchant_id == shop.merchant_id).ok_or_else(coupon_json::not_found)
}

fn action(name: &str, before: &UserCoupon, after: &UserCoupon, now: DateTime<Utc>) -> Action {
    let shown = |coupon: &UserCoupon| {
        let mut shown = json!(CouponJson::of(coupon, now));
        shown["user_id"] = json!(coupon.user_id.to_string());
        // The list shows the order of a used coupon only; the record also shows which order gave it back.
        shown["order_ref"] = json!(coupon.order_ref);
        shown
    };
    Action {
        merchant_id: after.merchant_id,
        name: name.to_owned(),
        target: format!("coupons/{}", after.id),
        before: Some(shown(before)),
        after: Some(shown(after)),
    }
}

impl RedemptionRequest {
    fn read(&self, coupon: CouponId) -> Result<Wish<'_>, Problem> {
        let user = self.user_id.parse().map_err(|_| {
            Problem::new(Code::InvalidUserId, "Use the user's id in `user_id`, a number in quotes.")
        })?;
        Ok(Wish { coupon, user, order_ref: order_ref(&self.order_ref)? })
    }
}

/// Checks a text that appears in logs and on paper, where no two that differ may look alike: no control or invisible
/// characters, and not only spaces.
pub(crate) fn order_ref(text: &str) -> Result<&str, Problem> {
    let chars = text.chars().count();
    let most = limit::ORDER_REF_CHARS_MAX;
    let wrong = if text.trim().is_empty() || chars > most {
        format!("use 1 to {most} characters, not only spaces")
    } else if let Some(refused) = coupon::text::unseen(text) {
        format!(
            "leave {refused} out: it steers text or shows nothing, and two orders would look alike"
        )
    } else {
        return Ok(text);
    };
    let problem = Problem::new(Code::InvalidOrderRef, format!("order_ref: {wrong}."));
    Err(problem.with("field", "order_ref"))
}

/// Returns the answer to a use.
pub(crate) fn answer_use(used: Use, now: DateTime<Utc>) -> Result<Json<CouponJson>, Problem> {
    match used {
        Use::Used(coupon) | Use::Replayed(coupon) => Ok(Json(CouponJson::of(&coupon, now))),
        Use::UsedElsewhere(_) => Err(used_elsewhere()),
        Use::GivenBack(_) => Err(Problem::new(
            Code::OrderCancelled,
            "This order gave the coupon back and cannot use it again. Send another `order_ref`.",
        )),
        Use::Expired(coupon) => Err(expired(&coupon)),
        Use::NotYetValid(coupon) => Err(Problem::new(
            Code::CouponNotYetValid,
            format!("The coupon is valid from {}.", instant(coupon.valid_from)),
        )
        .with("valid_from", instant(coupon.valid_from))),
        Use::NotFound => Err(coupon_json::not_found()),
    }
}

fn used_elsewhere() -> Problem {
    let detail = "The coupon was used for another order.";
    Problem::new(Code::CouponUsed, detail)
}

fn expired(coupon: &UserCoupon) -> Problem {
    let at = instant(coupon.valid_until);
    let detail = format!("The coupon was valid until {at}.");
    Problem::new(Code::CouponExpired, detail).with("valid_until", at)
}
