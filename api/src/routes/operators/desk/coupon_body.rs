//! A coupon as a support desk sees it.

use chrono::{DateTime, Utc};
use coupon::CouponId;
use mysql_store::{checkout::Lock, user_coupon::UserCoupon};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    http::{
        instant::instant,
        schemas::{Id, Instant},
    },
    routes::bodies::coupon_json::CouponJson,
};

/// A coupon with its user, and what became of it.
#[derive(Serialize, ToSchema)]
#[schema(as = DeskCoupon, examples(example))]
pub(crate) struct DeskCoupon {
    #[serde(flatten)]
    coupon: CouponJson,
    #[schema(value_type = Id)]
    user_id: String,
    /// The last order that gave it back. That order cannot use it again.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    given_back_by: Option<String>,
    /// Rises by one with each change.
    version: i64,
    #[schema(value_type = Instant)]
    changed_at: String,
    /// The order whose checkout keeps it at the moment. Once the coupon is cancelled, that order is refused
    /// (`COUPON_CANCELLED`; after a replacement with `replaced_by`).
    #[schema(value_type = LockedFor)]
    #[serde(skip_serializing_if = "Option::is_none")]
    locked_for: Option<LockedFor>,
}

/// The lock of a checkout.
#[derive(Serialize, ToSchema)]
#[schema(examples(json!({ "order_ref": "order-2041", "locked_until": "2026-11-28T17:52:10.031Z" })))]
pub(crate) struct LockedFor {
    order_ref: String,
    /// When it lapses.
    #[schema(value_type = Instant)]
    locked_until: String,
}

/// A coupon, and its place in a chain of replacements.
#[derive(Serialize, ToSchema)]
#[schema(as = DeskCouponInFull, examples(example))]
pub(crate) struct InFull {
    #[serde(flatten)]
    coupon: DeskCoupon,
    /// The cancelled coupon whose place it takes.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<String>,
    /// The coupon that took its place.
    #[schema(value_type = Id)]
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<String>,
}

/// Example for the OpenAPI document.
pub(crate) fn example() -> Value {
    json!({
        "id": "2123985068924862464", "template_id": "2123985067360387072",
        "claim_id": "2123985068924862465", "status": "unused", "claimed_at": "2026-11-27T08:00:01.207Z",
        "valid_from": "2026-11-27T08:00:01.207Z", "valid_until": "2026-12-04T08:00:01.207Z",
        "user_id": "42", "version": 1, "changed_at": "2026-11-27T08:00:01.207Z"
    })
}

impl DeskCoupon {
    pub(crate) fn of(row: &UserCoupon, now: DateTime<Utc>) -> Self {
        Self {
            coupon: CouponJson::of(row, now),
            user_id: row.user_id.to_string(),
            given_back_by: row.order_ref.clone().filter(|_| row.used_at.is_none()),
            version: row.version,
            changed_at: instant(row.changed_at),
            locked_for: None,
        }
    }

    /// Names the checkout that keeps the coupon, so that a desk that changes it can tell the shop.
    pub(crate) fn locked(self, lock: Option<Lock>) -> Self {
        let locked_for = lock
            .map(|lock| LockedFor { order_ref: lock.order_ref, locked_until: instant(lock.until) });
        Self { locked_for, ..self }
    }
}

impl InFull {
    pub(crate) fn of(
        coupon: DeskCoupon,
        replaces: Option<CouponId>,
        replaced_by: Option<CouponId>,
    ) -> Self {
        let id = |id: CouponId| id.to_string();
        Self { coupon, replaces: replaces.map(id), replaced_by: replaced_by.map(id) }
    }
}
