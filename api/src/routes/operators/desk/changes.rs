//! Changes of one coupon by a support desk: revoke, extend, replace. Each has a reason, and is one transaction with its
//! line of the audit record.

use axum::{extract::State, http::StatusCode};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, limit, text};
use mysql_store::{
    MySqlConnection, checkout,
    connect::{self, Transaction},
    desk::{self, Change, Replaced},
    user_coupon::UserCoupon,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::info;
use utoipa::ToSchema;

use super::coupon_body::{self, DeskCoupon};
use crate::{
    auth::Operator,
    code::Code,
    http::{
        extract::{Body, PathId},
        instant::{RequestInstant, instant},
        schemas::{Id, RequestId},
    },
    problem::Problem,
    routes::{
        audit::{
            self, Action,
            idempotency::{Answer, Begun, Known, Once},
        },
        bodies::coupon_json,
        operators::{stock_movements::REASON_CHARS_MAX, templates::validity::progress_url},
    },
    state::App,
};

/// Why a coupon is changed.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Reason, examples(json!({ "reason": "Ticket 4711: the code was published by mistake." })))]
pub(crate) struct ReasonRequest {
    /// The reason, for people who read the audit record.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    pub(crate) reason: String,
}

/// A later end of a coupon's validity, and why.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Extension, examples(json!({
    "valid_until": "2036-12-31T22:59:59Z", "reason": "Ticket 4712: the shop was closed for a week."
})))]
pub(crate) struct ExtensionRequest {
    /// The new end of its validity, exclusive: later than the present one, and within ten years.
    valid_until: RequestInstant,
    /// The reason, for people who read the audit record.
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    reason: String,
}

/// A coupon that was revoked, and the one in its place.
#[derive(Serialize, ToSchema)]
#[schema(as = ReplacedCoupon, examples(replaced_example))]
pub(crate) struct ReplacedBody {
    cancelled: DeskCoupon,
    replacement: DeskCoupon,
}

fn replaced_example() -> Value {
    let mut cancelled = coupon_body::example();
    let replacement = coupon_body::example();
    cancelled["id"] = json!("2123985068924862400");
    cancelled["status"] = json!("cancelled");
    cancelled["version"] = json!(2);
    json!({ "cancelled": cancelled, "replacement": replacement })
}

/// `POST /v1/coupons/{id}/revoke`
#[utoipa::path(
    post,
    path = "/v1/coupons/{id}/revoke",
    operation_id = "revoke_coupon",
    tag = "Support",
    summary = "Revoke an unused coupon, for good",
    description = "The coupon is `cancelled`. Its unit of stock and its number stay gone: the user cannot claim another \
                   one in its place. The same call again is the same answer. A checkout's lock does not prevent it: \
                   `locked_for` names the order, which is refused from then on.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The coupon, of a template of one's own."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request has the same answer.")
    ),
    request_body = ReasonRequest,
    responses((status = 200, description = "It is cancelled.", body = DeskCoupon)),
    extensions(("x-problems" = json!(
        "INVALID_CHANGE COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED NOT_CONFIRMED HOLD_LAPSED HOURLY_QUOTA_EXCEEDED \
         IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    PathId(id): PathId<CouponId>,
    Body(request): Body<ReasonRequest>,
) -> Result<Answer, Problem> {
    valid_reason(&request.reason)?;
    let once = once.asking(&request);
    change(&app, operator, &once, id, Wanted::Revoke, &request.reason).await
}

/// `POST /v1/coupons/{id}/extend`
#[utoipa::path(
    post,
    path = "/v1/coupons/{id}/extend",
    operation_id = "extend_coupon",
    tag = "Support",
    summary = "Let an unused coupon end later",
    description = "The same call again is the same answer. A change of the template's validity that issued coupons follow \
                   applies to it later, as to every other coupon; while one is under way, the answer is 409 \
                   `MOVE_UNDER_WAY`.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The coupon, of a template of one's own."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request has the same answer.")
    ),
    request_body = ExtensionRequest,
    responses((status = 200, description = "It ends then.", body = DeskCoupon)),
    extensions(("x-problems" = json!(
        "INVALID_CHANGE COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED MOVE_UNDER_WAY \
         HOURLY_QUOTA_EXCEEDED \
         IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn extend(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    PathId(id): PathId<CouponId>,
    Body(request): Body<ExtensionRequest>,
) -> Result<Answer, Problem> {
    valid_reason(&request.reason)?;
    let once = once.asking(&request);
    // The new end may have passed since the first such request.
    if let Some(answer) = once.answered(&app, operator).await? {
        return Ok(answer);
    }
    let until = request.valid_until.0;
    let now = app.clock.now();
    if until <= now || until > now + TimeDelta::milliseconds(limit::VALID_FOR_MS_MAX) {
        return Err(invalid("valid_until", "name a time within the next ten years"));
    }
    change(&app, operator, &once, id, Wanted::Extend(until), &request.reason).await
}

/// `POST /v1/coupons/{id}/replace`
#[utoipa::path(
    post,
    path = "/v1/coupons/{id}/replace",
    operation_id = "replace_coupon",
    tag = "Support",
    summary = "Revoke an unused coupon and issue one in its place",
    description = "Both at once, or neither. The replacement has the validity of the coupon that it replaces and its place \
                   on the user's list. It takes no stock and does not count for the limit. A checkout's lock does not \
                   prevent it: `locked_for` names the order, which learns `replaced_by`. The same call again is the \
                   same answer. While a change of the template's validity is being applied to issued coupons, the answer \
                   is 409 `MOVE_UNDER_WAY`.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The coupon, of a template of one's own."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request has the same answer.")
    ),
    request_body = ReasonRequest,
    responses((status = 200, description = "It is replaced.", body = ReplacedBody)),
    extensions(("x-problems" = json!(
        "INVALID_CHANGE COUPON_NOT_FOUND COUPON_USED COUPON_EXPIRED COUPON_CANCELLED NOT_CONFIRMED HOLD_LAPSED MOVE_UNDER_WAY \
         HOURLY_QUOTA_EXCEEDED \
         IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn replace(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    PathId(id): PathId<CouponId>,
    Body(request): Body<ReasonRequest>,
) -> Result<Answer, Problem> {
    valid_reason(&request.reason)?;
    let once = once.asking(&request);
    let work = || async {
        let Begun { mut transaction, known } = once.begin(&app, operator).await?;
        if let Known::Answer(answer) = known {
            return Ok(answer);
        }
        let before = held(&mut transaction, operator, id).await?;
        let now = app.clock.now();
        let new = app.ids.coupon()?;
        let replaced = desk::replace(&mut transaction, &before, new, now).await?;
        if let Change::Done(after) = &replaced.change {
            let mut shown = described(after, &request.reason, now);
            shown["replaced_by"] = json!(new.to_string());
            let action = action("coupon.replace", &before, shown, now);
            audit::record(&app, operator, &mut transaction, action).await?;
            info!(coupon.id = %id, replacement.id = %new, "replacing a coupon");
        }
        let Replaced { change, replacement } = replaced;
        let cancelled = changed(change)?;
        let replacement = replacement.ok_or_else(coupon_json::cancelled)?;
        let lock = checkout::lock_in_force(&mut transaction, id).await?;
        let body = ReplacedBody {
            cancelled: DeskCoupon::of(&cancelled, now).locked(lock),
            replacement: DeskCoupon::of(&replacement, now),
        };
        committed(&app, operator, &once, transaction, &body).await
    };
    connect::within(connect::retried(work, Problem::is_contended)).await
}

/// A change that leaves a coupon in its place.
#[derive(Clone, Copy)]
enum Wanted {
    Revoke,
    /// To this end.
    Extend(DateTime<Utc>),
}

impl Wanted {
    /// Its name in the record, and in the log.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Revoke => ("coupon.revoke", "revoking"),
            Self::Extend(_) => ("coupon.extend", "extending"),
        }
    }
}

/// Makes a change and its line of the record in one transaction, once per key.
async fn change(
    app: &App,
    operator: Operator,
    once: &Once,
    id: CouponId,
    wanted: Wanted,
    reason: &str,
) -> Result<Answer, Problem> {
    let work = || async {
        let Begun { mut transaction, known } = once.begin(app, operator).await?;
        if let Known::Answer(answer) = known {
            return Ok(answer);
        }
        let before = held(&mut transaction, operator, id).await?;
        let now = app.clock.now();
        let (name, doing) = wanted.words();
        let change = match wanted {
            Wanted::Revoke => desk::revoke(&mut transaction, &before, now).await?,
            Wanted::Extend(until) => desk::extend(&mut transaction, &before, until, now).await?,
        };
        if let Change::Done(after) = &change {
            let action = action(name, &before, described(after, reason, now), now);
            audit::record(app, operator, &mut transaction, action).await?;
            info!(coupon.id = %id, "{doing} a coupon");
        }
        let after = changed(change)?;
        let lock = checkout::lock_in_force(&mut transaction, id).await?;
        let body = DeskCoupon::of(&after, now).locked(lock);
        committed(app, operator, once, transaction, &body).await
    };
    connect::within(connect::retried(work, Problem::is_contended)).await
}

/// Stores the answer under the request's key, commits both with the change, and returns it.
async fn committed(
    app: &App,
    operator: Operator,
    once: &Once,
    mut transaction: Transaction,
    body: &impl Serialize,
) -> Result<Answer, Problem> {
    let answer = Answer::new(StatusCode::OK, body);
    once.end(operator, &mut transaction, &answer).await?;
    app.commit(transaction).await?;
    Ok(answer)
}

/// Reads and locks a coupon of the operator's merchant.
async fn held(
    transaction: &mut MySqlConnection,
    operator: Operator,
    id: CouponId,
) -> Result<UserCoupon, Problem> {
    let held = desk::hold(transaction, operator.merchant_id, id).await?;
    held.ok_or_else(coupon_json::not_found)
}

/// Returns the coupon as the change, or an earlier identical one, left it; or why it cannot be changed.
fn changed(change: Change) -> Result<UserCoupon, Problem> {
    match change {
        Change::Done(coupon) | Change::Stands(coupon) => Ok(coupon),
        Change::Used(coupon) => Err(used(&coupon)),
        Change::Expired(coupon) => Err(coupon_json::expired(&coupon)),
        Change::Cancelled(_) => Err(coupon_json::cancelled()),
        Change::Held(coupon) => {
            let until = instant(coupon.valid_until);
            let detail = format!(
                "The coupon is held until {until}, and lapses then. To take it away before, cancel its claim, {}, with a \
                 key of the scope `redeem`; to change it, confirm its claim first.",
                coupon.claim_id
            );
            let problem = Problem::new(Code::NotConfirmed, detail).with("held_until", until);
            Err(problem.with("claim_id", coupon.claim_id.to_string()))
        }
        Change::Lapsed(coupon) => Err(coupon_json::lapsed(&coupon)),
        Change::NotLater(coupon) => {
            let at = instant(coupon.valid_until);
            let problem = format!("name a time later than its present end, {at}");
            Err(invalid("valid_until", &problem).with("valid_until", at))
        }
        Change::Moving(coupon) => {
            let detail = "Issued coupons are being moved to a change of the template's validity, which could undo this. \
                          Wait until they are.";
            let progress = progress_url(coupon.template_id);
            Err(Problem::new(Code::MoveUnderWay, detail).with("progress", progress))
        }
    }
}

/// Says how a used coupon is given back: alone. A rollback of its order would give back the order's other coupons too,
/// perhaps other users', and would leave out what a user used at a till.
fn used(coupon: &UserCoupon) -> Problem {
    let detail = format!(
        "The coupon is used. Give it back first: `POST /v1/coupons/{}/unuse` with this `user_id` and `order_ref`, and a \
         key of the scope `redeem`. A rollback of the order would give back its other coupons too.",
        coupon.id
    );
    Problem::new(Code::CouponUsed, detail)
        .with("order_ref", coupon.order_ref.as_deref().unwrap_or_default())
        .with("user_id", coupon.user_id.to_string())
}

/// Checks the reason of a change.
pub(crate) fn valid_reason(reason: &str) -> Result<(), Problem> {
    text::wrong(reason, REASON_CHARS_MAX).map_or(Ok(()), |wrong| Err(invalid("reason", &wrong)))
}

fn invalid(field: &str, problem: &str) -> Problem {
    Problem::new(Code::InvalidChange, format!("{field}: {problem}.")).with("field", field)
}

fn action(name: &str, before: &UserCoupon, after: Value, now: DateTime<Utc>) -> Action {
    Action {
        merchant_id: before.merchant_id,
        name: name.to_owned(),
        target: format!("coupons/{}", before.id),
        before: Some(json!(DeskCoupon::of(before, now))),
        after: Some(after),
    }
}

fn described(after: &UserCoupon, reason: &str, now: DateTime<Utc>) -> Value {
    let mut shown = json!(DeskCoupon::of(after, now));
    shown["reason"] = json!(reason);
    shown
}
