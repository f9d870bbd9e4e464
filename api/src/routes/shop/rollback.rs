//! `POST /v1/redemptions/{order_ref}/rollback`: an order gives its coupons back, all or some of them.
//!
//! Without `coupons` the order is cancelled: it redeems nothing any more, even if the cancellation overtakes its
//! redemption. [`super::redemption`] says what giving a coupon back means.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use coupon::{CouponId, text};
use mysql_store::{
    MySqlConnection, connect,
    redemption::{self, OrderCounts, Redemption},
    redemption_order::{self, Hold, OrderName},
    user_coupon::{self, Unuse},
};
use serde::Deserialize;
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::{Operator, Redeemer},
    http::{
        extract::{Body, PathId},
        instant::instant,
        schemas::Id,
    },
    problem::Problem,
    routes::{
        audit::{self, Action},
        bodies::coupon_json,
        shop::{
            checkout::{self, Change, order_of},
            redemption::order_ref,
            redemption_json::{RollbackBody, shows_all},
        },
    },
    state::App,
};

/// Longest reason, in characters: the length of the `varchar(200)` column.
pub(crate) const REASON_CHARS_MAX: usize = 200;

/// Why an order gives coupons back, and which.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRollback, examples(json!({ "reason": "The order was cancelled." })))]
pub(crate) struct RollbackRequest {
    /// For people who read the record.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    reason: String,
    /// Some of the order's coupons. Absent: all, and the order is cancelled.
    #[schema(value_type = Option<Vec<Id>>)]
    coupons: Option<Vec<CouponId>>,
}

/// Most coupons that one request names; an order that redeems them together has a fifth of this.
const COUPONS_MAX: usize = 100;

/// Coupons that a rollback of a whole order gives back: five statements for each are over within a second or two.
const ORDER_MAX: i64 = 200;

/// Length of the record's `varchar(60)` column of targets, in characters. Longer names of orders are cut there; the
/// line itself has the whole name.
const TARGET_CHARS_MAX: usize = 60;

/// A rollback, as requested.
struct Rollback<'a> {
    order_ref: &'a str,
    reason: &'a str,
    coupons: Option<&'a [CouponId]>,
}

/// `POST /v1/redemptions/{order_ref}/rollback`
#[utoipa::path(
    post,
    path = "/v1/redemptions/{order_ref}/rollback",
    operation_id = "roll_back_redemption",
    tag = "Redemption",
    summary = "Give an order's coupons back, all or some of them",
    description = "All or none: one that has expired stays used, and the others are given back by naming them. Without \
                   `coupons` one call gives back at most 200. Only single uses of many users under one name exceed this: \
                   the call is then 422 `INVALID_REDEMPTION` with their number, `standing`, and does nothing. Give back \
                   those in `next`, up to 100, and repeat the call until it is answered 200. Orders from before redemptions \
                   were recorded are given back by `unuse`.",
    security(("operator_key" = [])),
    params(("order_ref" = String, Path, min_length = 1, max_length = 64, description = "The shop's name of the order, percent-encoded.")),
    request_body = RollbackRequest,
    responses((status = 200, description = "The coupons, given back now or before. The same call again is the same answer.", body = RollbackBody)),
    extensions(("x-problems" = json!(
        "INVALID_REDEMPTION INVALID_ORDER_REF COUPON_NOT_FOUND COUPON_EXPIRED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED OVERLOADED"
    )))
)]
pub(crate) async fn roll_back(
    State(app): State<App>,
    Redeemer(shop): Redeemer,
    PathId(name): PathId<String>,
    Body(request): Body<RollbackRequest>,
) -> Result<Json<RollbackBody>, Problem> {
    let asked = request.read(&name)?;
    let done = connect::retried(|| try_roll_back(&app, shop, &asked), Problem::is_contended);
    connect::within(done).await.map(Json)
}

async fn try_roll_back(
    app: &App,
    shop: Operator,
    asked: &Rollback<'_>,
) -> Result<RollbackBody, Problem> {
    let &Rollback { order_ref, reason, coupons } = asked;
    let mut transaction = connect::begin(&app.pool).await?;
    let now = app.clock.now();
    let name = order_of(shop, order_ref);
    let order = redemption_order::hold(&mut transaction, name, Hold::Alone).await?;
    let standing = standing(&mut transaction, name, coupons).await?;
    give_back(app, shop, &mut transaction, &standing, order_ref, reason, now).await?;
    if coupons.is_none() {
        if order.is_none() {
            checkout::create_order(&mut transaction, name, now).await?;
        }
        cancel(app, shop, &mut transaction, order_ref, reason, now).await?;
    }
    // As stored: every later answer is made of the same values.
    let body = match coupons {
        Some(coupons) => {
            let made = redemption::of_coupons(&mut transaction, name, coupons).await?;
            let made = by_coupon(made);
            RollbackBody::of(order_ref, coupons.iter().filter_map(|id| made.get(id)), true)
        }
        None => {
            let made = redemption::of_order(&mut transaction, name).await?;
            let all = redemption::count(&mut transaction, name).await?;
            let is_complete = shows_all(&made, all);
            RollbackBody::of(order_ref, by_coupon(made).values(), is_complete)
        }
    };
    app.commit(transaction).await?;
    info!(coupons = standing.len(), "an order gave coupons back");
    Ok(body)
}

/// Returns the coupons to be given back: those of the named ones, or of all, whose redemptions stand. They are in
/// order, as every writer of several coupons locks them.
async fn standing(
    transaction: &mut MySqlConnection,
    name: OrderName<'_>,
    coupons: Option<&[CouponId]>,
) -> Result<Vec<CouponId>, Problem> {
    let Some(coupons) = coupons else {
        let OrderCounts { standing, .. } = redemption::count(transaction, name).await?;
        let made = redemption::standing(transaction, name).await?;
        if standing > ORDER_MAX {
            return Err(too_many(standing, &made));
        }
        return Ok(by_coupon(made).into_keys().collect());
    };
    let made = by_coupon(redemption::of_coupons(transaction, name, coupons).await?);
    let unknown = coupons.iter().find(|id| !made.contains_key(id));
    if let Some(id) = unknown {
        return Err(checkout::named(coupon_json::not_found(), *id));
    }
    let stands = |(id, one): (CouponId, Redemption)| one.rolled_back.is_none().then_some(id);
    Ok(made.into_iter().filter_map(stands).collect())
}

/// Refuses to give back in part what was asked for as a whole.
fn too_many(standing: i64, made: &[Redemption]) -> Problem {
    let detail = format!(
        "the order uses {standing} coupons, and one rollback of a whole order gives back {ORDER_MAX}. Give back those in \
         `next`, then send this again; the last time it cancels the order"
    );
    let next: Vec<String> =
        made.iter().take(COUPONS_MAX).map(|one| one.coupon_id.to_string()).collect();
    checkout::invalid("coupons", &detail).with("standing", standing).with("next", next)
}

/// Cancels an order that is locked, and records it if it was not cancelled before.
async fn cancel(
    app: &App,
    shop: Operator,
    transaction: &mut MySqlConnection,
    order_ref: &str,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    let is_new = redemption_order::cancel(transaction, order_of(shop, order_ref), now).await?;
    if !is_new {
        return Ok(());
    }
    let action = Action {
        merchant_id: shop.merchant_id,
        name: "redemption.cancel".to_owned(),
        target: format!("redemptions/{order_ref}").chars().take(TARGET_CHARS_MAX).collect(),
        before: None,
        after: Some(json!({
            "order_ref": order_ref, "cancelled_at": instant(now), "reason": reason,
        })),
    };
    audit::record(app, shop, transaction, action).await?;
    Ok(())
}

/// Gives back coupons that the order uses.
async fn give_back(
    app: &App,
    shop: Operator,
    transaction: &mut MySqlConnection,
    coupons: &[CouponId],
    order_ref: &str,
    reason: &str,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    for locked in checkout::lock_rows(transaction, shop, coupons, None).await? {
        let before = &locked.coupon;
        let id = before.id;
        let user = before.user_id;
        let unused = user_coupon::unuse_for_order(transaction, user, id, order_ref, now).await?;
        match unused {
            Unuse::GivenBack(after) => {
                let change = Change { before, after: &after, order_ref, at: now };
                change.given_back(app, shop, transaction, Some(reason)).await?;
            }
            Unuse::Expired(coupon) => {
                return Err(checkout::named(coupon_json::expired(&coupon), id));
            }
            Unuse::Cancelled(_) => return Err(checkout::named(coupon_json::cancelled(), id)),
            Unuse::Held(coupon) => {
                return Err(checkout::named(coupon_json::not_confirmed(&coupon), id));
            }
            Unuse::Lapsed(coupon) => {
                return Err(checkout::named(coupon_json::lapsed(&coupon), id));
            }
            // A return of this one coupon was faster, and its rollback is recorded.
            Unuse::UsedElsewhere(_) | Unuse::Replayed(_) => {}
            Unuse::NotFound => return Err(checkout::named(coupon_json::not_found(), id)),
        }
    }
    Ok(())
}

/// The last redemption of each coupon of an order.
fn by_coupon(made: Vec<Redemption>) -> BTreeMap<CouponId, Redemption> {
    made.into_iter().map(|one| (one.coupon_id, one)).collect()
}

impl RollbackRequest {
    fn read<'a>(&'a self, name: &'a str) -> Result<Rollback<'a>, Problem> {
        let order_ref = order_ref(name)?;
        if let Some(wrong) = text::wrong(&self.reason, REASON_CHARS_MAX) {
            return Err(checkout::invalid("reason", &wrong));
        }
        let coupons = self.coupons.as_deref();
        if coupons.is_some_and(|coupons| !(1..=COUPONS_MAX).contains(&coupons.len())) {
            let problem = format!("name 1 to {COUPONS_MAX}, or leave it out for all");
            return Err(checkout::invalid("coupons", &problem));
        }
        Ok(Rollback { order_ref, reason: &self.reason, coupons })
    }
}
