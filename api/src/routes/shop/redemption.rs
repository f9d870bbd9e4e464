//! Redemption at a shop's checkout: a coupon is used for an order, and given back when the order is cancelled.
//!
//! The shop calls with a key of the scope `redeem`, and names the user and the order. The order identifies the request:
//! the same call again gets the same answer. A cancellation is final for its order: a use of it that arrives late, from
//! a queue or a retry, takes nothing. Change, redemption and audit line are one transaction. A call here concerns one
//! coupon, without money; [`super::order_redemption`] handles several coupons and what they take off.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{CouponId, UserId, limit, money::Inapplicable, text};
use mysql_store::{
    MySqlConnection, connect, redemption,
    redemption_order::{self, Hold, Order, OrderName},
    user_coupon::{self, Unuse, Use, UserCoupon},
};
use serde::Deserialize;
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
        bodies::coupon_json::{self, CouponJson},
        shop::{
            checkout::{self, Change, LockedRow, order_of},
            judge,
        },
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
    /// The shop's name of the order, compared byte by byte. No control or invisible characters, and no space at its
    /// ends.
    #[schema(min_length = 1, max_length = 64)]
    order_ref: String,
}

/// A coupon, its user and the order, as requested.
struct CouponUse<'a> {
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
         COUPON_LOCKED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED NOT_STACKABLE ORDER_CANCELLED ORDER_REDEEMED OVERLOADED"
    )))
)]
pub(crate) async fn use_coupon(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(coupon): PathId<CouponId>,
    Body(request): Body<RedemptionRequest>,
) -> Result<Json<CouponJson>, Problem> {
    let coupon_use = request.read(coupon)?;
    let used = connect::retried(|| try_use(&app, shop, &coupon_use), Problem::is_contended);
    answer_use(connect::within(used).await?, app.clock.now())
}

async fn try_use(app: &App, shop: Operator, coupon_use: &CouponUse<'_>) -> Result<Use, Problem> {
    let &CouponUse { coupon, user, order_ref } = coupon_use;
    let name = order_of(shop, order_ref);
    let mut transaction = connect::begin(&app.pool).await?;
    let now = app.clock.now();
    let how = beside(&mut transaction, coupon).await?;
    let order = redemption_order::hold(&mut transaction, name, how).await?;
    let locked = own(&mut transaction, shop, coupon_use).await?;
    let used = user_coupon::use_for_order(&mut transaction, user, coupon, order_ref, now).await?;
    match used {
        Use::Used(after) => {
            // Returning an error rolls the use back.
            fits(&mut transaction, name, order.as_ref(), &locked).await?;
            let change = Change { before: &locked.coupon, after: &after, order_ref, at: now };
            change.used(app, shop, &mut transaction, None).await?;
            if order.is_none() {
                checkout::create_order(&mut transaction, name, now).await?;
            }
            app.commit(transaction).await?;
            info!(coupon.id = %coupon, "a shop used a coupon");
            Ok(Use::Used(after))
        }
        Use::Replayed(before) => {
            // The user may have used the coupon at a till under this order's name, and had the discount there.
            let actor = redemption::made_by(&mut transaction, coupon, order_ref).await?;
            let is_of_till = actor.is_some_and(|actor| actor == redemption::USER);
            Ok(if is_of_till { Use::UsedElsewhere(before) } else { Use::Replayed(before) })
        }
        refused @ Use::Cancelled(_) => Err(judge::refusal(&mut transaction, refused).await?),
        refused => Ok(refused),
    }
}

/// Returns how a single use locks its order. A coupon that is not stackable locks it alone, so that it and every other
/// use of the order see each other. Stackable ones share the lock: they exclude only the others, redemptions of several
/// coupons, and the order's cancellation.
async fn beside(transaction: &mut MySqlConnection, coupon: CouponId) -> Result<Hold, Problem> {
    // Published terms do not change, so the coupon need not be locked yet.
    let terms = mysql_store::checkout::terms(transaction, &[coupon]).await?;
    let bears_others = terms.first().is_some_and(|terms| terms.stackable);
    Ok(if bears_others { Hold::Shared } else { Hold::Alone })
}

/// Checks that the order, which is locked, may use the coupon together with those of its user that it has used.
async fn fits(
    transaction: &mut MySqlConnection,
    name: OrderName<'_>,
    order: Option<&Order>,
    locked: &LockedRow,
) -> Result<(), Problem> {
    if order.is_some_and(|order| order.cancelled_at.is_some()) {
        return Err(checkout::order_cancelled());
    }
    if order.is_some_and(|order| order.redeemed.is_some()) {
        return Err(checkout::order_redeemed());
    }
    checkout::not_kept_by_another(&locked.terms, Some(name.order_ref))?;
    checkout::not_given_back(transaction, name, locked.coupon.id).await?;
    let others = redemption::beside(transaction, name, &locked.coupon).await?;
    if others.is_empty() {
        return Ok(());
    }
    let mut all = mysql_store::checkout::terms(transaction, &others).await?;
    all.push(locked.terms.clone());
    match all.iter().find(|terms| !terms.stackable) {
        Some(terms) => Err(checkout::inapplicable(terms, Inapplicable::NotStackable)),
        None => Ok(()),
    }
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
        "INVALID_USER_ID INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED OVERLOADED"
    )))
)]
pub(crate) async fn unuse_coupon(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(coupon): PathId<CouponId>,
    Body(request): Body<RedemptionRequest>,
) -> Result<Json<CouponJson>, Problem> {
    let coupon_use = request.read(coupon)?;
    let unused = connect::retried(|| try_unuse(&app, shop, &coupon_use), Problem::is_contended);
    match connect::within(unused).await? {
        Unuse::GivenBack(coupon) | Unuse::Replayed(coupon) => {
            Ok(Json(CouponJson::of(&coupon, app.clock.now())))
        }
        Unuse::UsedElsewhere(_) => Err(used_elsewhere()),
        Unuse::Expired(coupon) => Err(coupon_json::expired(&coupon)),
        Unuse::Cancelled(_) => Err(coupon_json::cancelled()),
        Unuse::Held(coupon) => Err(coupon_json::not_confirmed(&coupon)),
        Unuse::Lapsed(coupon) => Err(coupon_json::lapsed(&coupon)),
        Unuse::NotFound => Err(coupon_json::not_found()),
    }
}

async fn try_unuse(
    app: &App,
    shop: Operator,
    coupon_use: &CouponUse<'_>,
) -> Result<Unuse, Problem> {
    let &CouponUse { coupon, user, order_ref } = coupon_use;
    let mut transaction = connect::begin(&app.pool).await?;
    let now = app.clock.now();
    let locked = own(&mut transaction, shop, coupon_use).await?;
    let unused = user_coupon::unuse_for_order(&mut transaction, user, coupon, order_ref, now);
    let unused = unused.await?;
    if let Unuse::GivenBack(after) = &unused {
        let change = Change { before: &locked.coupon, after, order_ref, at: now };
        change.given_back(app, shop, &mut transaction, None).await?;
        app.commit(transaction).await?;
        info!(coupon.id = %coupon, "a shop gave a coupon back");
    }
    Ok(unused)
}

/// Reads and locks the user's coupon, if it belongs to the shop.
async fn own(
    transaction: &mut MySqlConnection,
    shop: Operator,
    coupon_use: &CouponUse<'_>,
) -> Result<LockedRow, Problem> {
    let locked =
        checkout::lock_rows(transaction, shop, &[coupon_use.coupon], Some(coupon_use.user)).await?;
    locked.into_iter().next().ok_or_else(coupon_json::not_found)
}

impl RedemptionRequest {
    fn read(&self, coupon: CouponId) -> Result<CouponUse<'_>, Problem> {
        let user = checkout::user(&self.user_id)?;
        Ok(CouponUse { coupon, user, order_ref: order_ref(&self.order_ref)? })
    }
}

/// Checks a text that appears in logs and on paper, where no two that differ may look alike.
pub(crate) fn order_ref(text: &str) -> Result<&str, Problem> {
    let Some(wrong) = text::wrong_reference(text, limit::ORDER_REF_CHARS_MAX) else {
        return Ok(text);
    };
    let problem = Problem::new(Code::InvalidOrderRef, format!("order_ref: {wrong}."));
    Err(problem.with("field", "order_ref"))
}

/// Returns the answer to a use.
pub(crate) fn answer_use(used: Use, now: DateTime<Utc>) -> Result<Json<CouponJson>, Problem> {
    done(used).map(|coupon| Json(CouponJson::of(&coupon, now)))
}

/// Returns the used coupon, or why it was not used.
pub(crate) fn done(used: Use) -> Result<UserCoupon, Problem> {
    match used {
        Use::Used(coupon) | Use::Replayed(coupon) => Ok(coupon),
        Use::UsedElsewhere(_) => Err(used_elsewhere()),
        Use::GivenBack(_) => Err(Problem::new(
            Code::OrderCancelled,
            "This order gave the coupon back and cannot use it again. Send another `order_ref`.",
        )),
        Use::Expired(coupon) => Err(coupon_json::expired(&coupon)),
        Use::Cancelled(_) => Err(coupon_json::cancelled()),
        Use::Held(coupon) => Err(coupon_json::not_confirmed(&coupon)),
        Use::Lapsed(coupon) => Err(coupon_json::lapsed(&coupon)),
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
