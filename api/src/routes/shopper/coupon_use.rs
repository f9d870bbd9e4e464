//! A coupon shown at a till: its user redeems it with their own token, if its template allows that.
//!
//! All other redemption is the shop's: [`crate::routes::shop::redemption`].

use std::convert::Infallible;

use axum::{extract::State, response::Response};
use coupon::{CouponId, CouponStatus, UserId};
use mysql_store::{
    MySqlConnection, checkout, connect, redemption,
    user_coupon::{self, Use, UserCoupon},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    auth::User,
    code::Code,
    http::{
        extract::{Body, PathId},
        schemas::Id,
    },
    problem::Problem,
    routes::{
        bodies::coupon_json::{self, CouponJson},
        shop::{
            checkout::not_kept_by_another,
            redemption::{answer_use, order_ref},
        },
    },
    state::App,
};

/// The order that a coupon is used for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Order, examples(json!({ "order_ref": "order-2041" })))]
pub(crate) struct OrderRequest {
    /// The shop's name of the order, compared byte by byte. No control or invisible characters, and no space at its
    /// ends.
    #[schema(min_length = 1, max_length = 64)]
    order_ref: String,
}

/// `POST /v1/me/coupons/{id}/use`
#[utoipa::path(
    post,
    path = "/v1/me/coupons/{id}/use",
    operation_id = "use_my_coupon",
    tag = "My coupons",
    summary = "Redeem one of my coupons at a till",
    description = "Only where the template says `self_redeem`. Else the shop redeems, by `POST /v1/coupons/{id}/use`.",
    security(("token" = [])),
    params(("id" = Id, Path, description = "The coupon.")),
    request_body = OrderRequest,
    responses((status = 200, description = "It is used. The same order again is the same answer.", body = CouponJson)),
    extensions(("x-problems" = json!(
        "RATE_LIMITED INVALID_ORDER_REF COUPON_NOT_FOUND SELF_REDEEM_FORBIDDEN COUPON_USED COUPON_EXPIRED COUPON_NOT_YET_VALID \
         COUPON_LOCKED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED ORDER_CANCELLED OVERLOADED"
    )))
)]
pub(crate) async fn use_coupon(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<CouponId>,
    Body(request): Body<OrderRequest>,
) -> Response {
    // A use counts as a claim: each locks a row, and takes a connection that others wait for.
    let work = async {
        let order_ref = order_ref(&request.order_ref)?;
        let used = connect::retried(|| try_use(&app, user, id, order_ref), Problem::is_contended);
        answer_use(connect::within(used).await?, app.clock.now())
    };
    app.claim_limit.limited(user, work).await
}

/// Uses the coupon. If it was used for this order already, the answer stays the same whatever the template allows by
/// now.
async fn try_use(app: &App, user: UserId, id: CouponId, order_ref: &str) -> Result<Use, Problem> {
    let mut transaction = connect::begin(&app.pool).await?;
    let coupon = user_coupon::hold(&mut transaction, user, id).await?;
    let coupon = coupon.ok_or_else(coupon_json::not_found)?;
    let terms = checkout::terms(&mut transaction, &[id]).await?.into_iter().next();
    let terms = terms.ok_or_else(coupon_json::not_found)?;
    let is_replay = is_used_for(&coupon, order_ref);
    let is_of_shop = is_replay && is_by_the_shop(&mut transaction, id, order_ref).await?;
    if !terms.self_redeem && (!is_replay || is_of_shop) {
        return Err(not_by_its_user("used"));
    }
    if is_of_shop {
        return Ok(Use::UsedElsewhere(coupon));
    }
    let now = app.clock.now();
    let used = user_coupon::use_for_order(&mut transaction, user, id, order_ref, now).await?;
    if let Use::Used(after) = &used {
        // A lock belongs to a checkout's order, which is never a till's.
        not_kept_by_another(&terms, None)?;
        let id = app.ids.redemption()?;
        let actor = redemption::USER;
        let money = None;
        let at = now;
        let new = redemption::New { id, coupon: after, order_ref, money, actor, at };
        redemption::add(&mut transaction, new).await?;
        app.commit(transaction).await?;
    }
    Ok(used)
}

/// Returns whether the shop's checkout has used the coupon for this order. Its shopper can read the order's name. A
/// replay under that name must not tell a till that the coupon is good once more.
async fn is_by_the_shop(
    transaction: &mut MySqlConnection,
    id: CouponId,
    order_ref: &str,
) -> Result<bool, Problem> {
    let actor = redemption::made_by(transaction, id, order_ref).await?;
    Ok(actor.is_some_and(|actor| actor != redemption::USER))
}

fn is_used_for(coupon: &UserCoupon, order_ref: &str) -> bool {
    coupon.status == CouponStatus::Used && coupon.order_ref.as_deref() == Some(order_ref)
}

/// `POST /v1/me/coupons/{id}/unuse`
#[utoipa::path(
    post,
    path = "/v1/me/coupons/{id}/unuse",
    operation_id = "unuse_my_coupon",
    tag = "My coupons",
    summary = "Refused: only the shop gives a coupon back",
    description = "Answers 403 to every user: who reads his order on his list could else use one coupon for ever. The \
                   shop gives it back by `POST /v1/coupons/{id}/unuse`.",
    security(("token" = [])),
    params(("id" = Id, Path, description = "The coupon.")),
    request_body = OrderRequest,
    responses(),
    extensions(
        ("x-problems" = json!("RATE_LIMITED INVALID_ORDER_REF COUPON_NOT_FOUND SELF_REDEEM_FORBIDDEN")),
        ("x-always-refused" = json!(true))
    )
)]
pub(crate) async fn unuse_coupon(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<CouponId>,
    Body(request): Body<OrderRequest>,
) -> Response {
    app.read_limit.limited(user, refused(&app, user, id, &request.order_ref)).await
}

async fn refused(
    app: &App,
    user: UserId,
    id: CouponId,
    order: &str,
) -> Result<Infallible, Problem> {
    order_ref(order)?;
    let own = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        user_coupon::get(&mut connection, user, id).await
    });
    own.await?.ok_or_else(coupon_json::not_found)?;
    Err(not_by_its_user("given back"))
}

fn not_by_its_user(done: &str) -> Problem {
    let detail = format!("This coupon is {done} by the shop, at its checkout.");
    Problem::new(Code::SelfRedeemForbidden, detail)
}
