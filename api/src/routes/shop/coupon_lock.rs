//! `POST /v1/coupons/{id}/lock`: keeps a coupon for an order while its shopper pays. No other order can use it until the
//! lock lapses by itself; the order's own redemption passes and lifts it, and so does its cancellation.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{CouponId, UserId, limit};
use mysql_store::{checkout as store, connect, redemption_order, user_coupon};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::{Operator, Redeemer},
    http::{
        extract::{Body, PathId},
        instant::instant,
        schemas::{Id, Instant},
    },
    problem::Problem,
    routes::{
        audit::{self, Action},
        bodies::coupon_json,
        shop::{
            checkout::{self, order_of},
            judge,
            redemption::order_ref,
        },
    },
    state::App,
};

/// The order that a coupon is kept for, and how long.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewLock, examples(json!({ "user_id": "42", "order_ref": "order-2041", "for_ms": 600000 })))]
pub(crate) struct LockRequest {
    /// The coupon's user. Absent: whoever has it.
    #[schema(value_type = Option<Id>)]
    user_id: Option<String>,
    /// The shop's name of the order, compared byte by byte. No control or invisible characters, and no space at its
    /// ends.
    #[schema(min_length = 1, max_length = 64)]
    order_ref: String,
    /// How long from now on, in milliseconds.
    #[schema(minimum = 1, maximum = 1800000i64)]
    for_ms: i64,
}

/// A coupon's lock.
#[derive(Serialize, ToSchema)]
#[schema(as = Lock, examples(json!({
    "coupon_id": "2123985068924862464", "order_ref": "order-2041", "locked_until": "2026-11-28T17:52:10.031Z"
})))]
pub(crate) struct LockBody {
    #[schema(value_type = Id)]
    coupon_id: String,
    order_ref: String,
    /// When it lapses, by the database's clock. The coupon's own validity is not prolonged.
    #[schema(value_type = Instant)]
    locked_until: String,
}

/// A lock, as requested.
struct CheckoutLock<'a> {
    coupon: CouponId,
    user: Option<UserId>,
    order_ref: &'a str,
    for_ms: i64,
}

/// `POST /v1/coupons/{id}/lock`
#[utoipa::path(
    post,
    path = "/v1/coupons/{id}/lock",
    operation_id = "lock_coupon",
    tag = "Redemption",
    summary = "Keep a coupon for an order while its shopper pays",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The coupon, of a template of one's own.")),
    request_body = LockRequest,
    responses((status = 200, description = "It is kept. The same order again keeps it for the new time from now on.", body = LockBody)),
    extensions(("x-problems" = json!(
        "INVALID_REDEMPTION INVALID_USER_ID INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED \
         COUPON_NOT_YET_VALID COUPON_LOCKED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED ORDER_CANCELLED OVERLOADED"
    )))
)]
pub(crate) async fn lock(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(id): PathId<CouponId>,
    Body(request): Body<LockRequest>,
) -> Result<Json<LockBody>, Problem> {
    let asked = request.read(id)?;
    let locked = connect::retried(|| try_lock(&app, shop, &asked), Problem::is_contended);
    let until = connect::within(locked).await?;
    Ok(Json(LockBody {
        coupon_id: id.to_string(),
        order_ref: asked.order_ref.to_owned(),
        locked_until: instant(until),
    }))
}

async fn try_lock(
    app: &App,
    shop: Operator,
    asked: &CheckoutLock<'_>,
) -> Result<DateTime<Utc>, Problem> {
    let &CheckoutLock { coupon: id, user, order_ref, for_ms } = asked;
    let mut transaction = connect::begin(&app.pool).await?;
    let now = app.clock.now();
    let order = redemption_order::find(&mut transaction, order_of(shop, order_ref)).await?;
    if order.is_some_and(|order| order.cancelled_at.is_some()) {
        return Err(checkout::order_cancelled());
    }
    let locked = checkout::lock_rows(&mut transaction, shop, &[id], user).await?.into_iter().next();
    let locked = locked.ok_or_else(coupon_json::not_found)?;
    let user = locked.coupon.user_id;
    let refused = user_coupon::refusal(&mut transaction, user, id, order_ref, now).await?;
    if let Some(refused) = refused {
        // A coupon that this order has used already needs no lock any more.
        return Err(judge::refusal(&mut transaction, refused).await?);
    }
    checkout::not_kept_by_another(&locked.terms, Some(order_ref))?;
    let until = store::lock(&mut transaction, id, order_ref, for_ms).await?;
    let shown = |until: DateTime<Utc>, order_ref: &str| json!({ "order_ref": order_ref, "locked_until": instant(until) });
    let action = Action {
        merchant_id: locked.coupon.merchant_id,
        name: "coupon.lock".to_owned(),
        target: format!("coupons/{id}"),
        before: locked.terms.lock.map(|lock| shown(lock.until, &lock.order_ref)),
        after: Some(shown(until, order_ref)),
    };
    audit::record(app, shop, &mut transaction, action).await?;
    app.commit(transaction).await?;
    info!(coupon.id = %id, "a shop locked a coupon");
    Ok(until)
}

impl LockRequest {
    fn read(&self, coupon: CouponId) -> Result<CheckoutLock<'_>, Problem> {
        let user = self.user_id.as_deref().map(checkout::user).transpose()?;
        let order_ref = order_ref(&self.order_ref)?;
        let most = limit::LOCK_MS_MAX;
        if !(1..=most).contains(&self.for_ms) {
            return Err(checkout::invalid("for_ms", &format!("use 1 to {most}")));
        }
        Ok(CheckoutLock { coupon, user, order_ref, for_ms: self.for_ms })
    }
}
