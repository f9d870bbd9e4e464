//! A coupon as a support desk sees it.

use chrono::{DateTime, Utc};
use coupon::CouponId;
use mysql_store::user_coupon::UserCoupon;
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
        }
    }
}

impl InFull {
    pub(crate) fn of(
        row: &UserCoupon,
        replaces: Option<CouponId>,
        replaced_by: Option<CouponId>,
        now: DateTime<Utc>,
    ) -> Self {
        let id = |id: CouponId| id.to_string();
        Self {
            coupon: DeskCoupon::of(row, now),
            replaces: replaces.map(id),
            replaced_by: replaced_by.map(id),
        }
    }
}
