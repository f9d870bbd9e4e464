//! Rows of a template's movements, claims and coupons, as operators see them.

use coupon::ClaimState;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::schemas::{self, Id, Instant, MovementKind};

/// A movement of a template's stock.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateMovement, examples(json!({
    "seq": 2, "delta": 500, "reason": "The second batch is printed.", "actor": "platform",
    "created_at": "2026-11-27T09:00:00.000Z", "total": 1500, "stock": 1373, "kind": "total",
    "delta_stock": 500
})))]
pub(crate) struct MovementRow {
    /// Number of the movement, without gaps. 1 is the template's creation.
    pub(crate) seq: i64,
    /// Change of the total.
    pub(crate) delta: i64,
    pub(crate) reason: String,
    /// The key that made it, or `platform`.
    pub(crate) actor: String,
    #[schema(value_type = Instant)]
    pub(crate) created_at: String,
    /// The total after the movement. Null: made before totals were recorded.
    #[schema(required = true)]
    pub(crate) total: Option<i64>,
    /// The stock after the movement. Null: likewise.
    #[schema(required = true)]
    pub(crate) stock: Option<i64>,
    /// `total`: an operator changed the total, or it is the creation; `return`: coupons lapsed or were cancelled; `lift`: an
    /// operator lifted a user's ban.
    #[schema(value_type = MovementKind)]
    pub(crate) kind: &'static str,
    /// Change of the stock.
    pub(crate) delta_stock: i64,
}

/// A claim of a template.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateClaim, examples(json!({
    "id": "2123985068924862465", "user_id": "42", "quantity": 1, "state": "landed",
    "claimed_at": "2026-11-27T08:00:01.207Z", "valid_from": "2026-11-27T08:00:01.207Z",
    "valid_until": "2026-12-04T08:00:01.207Z"
})))]
pub(crate) struct ClaimRow {
    #[schema(value_type = Id)]
    pub(crate) id: String,
    #[schema(value_type = Id)]
    pub(crate) user_id: String,
    /// Number of coupons; 0 if it was given up. Of a rejected claim the number that it asked for.
    pub(crate) quantity: i32,
    /// `landed`; `rejected`: it was accepted into a queue and refused there, and its key with it; or `given_up`: it did
    /// not land and never will.
    #[schema(value_type = String)]
    pub(crate) state: &'static str,
    #[schema(value_type = Instant)]
    pub(crate) claimed_at: String,
    /// As issued. Null: it did not land.
    #[schema(value_type = Option<Instant>, required = true)]
    pub(crate) valid_from: Option<String>,
    /// As issued. Null: it did not land.
    #[schema(value_type = Option<Instant>, required = true)]
    pub(crate) valid_until: Option<String>,
}

impl ClaimRow {
    const STATES: [ClaimState; 3] = [ClaimState::Landed, ClaimState::Rejected, ClaimState::Void];

    /// Name of a claim's state in lists.
    pub(crate) fn word_of(state: ClaimState) -> &'static str {
        match state {
            ClaimState::Landed => "landed",
            ClaimState::Rejected => "rejected",
            ClaimState::Void => "given_up",
        }
    }

    /// Finds a state by its name in lists.
    pub(crate) fn state_of(word: &str) -> Option<ClaimState> {
        Self::STATES.into_iter().find(|state| Self::word_of(*state) == word)
    }
}

/// A coupon of a template.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateCoupon, examples(json!({
    "id": "2123985068924862464", "user_id": "42", "number": "1", "claim_id": "2123985068924862465",
    "status": "used", "claimed_at": "2026-11-27T08:00:01.207Z", "valid_from": "2026-11-27T08:00:01.207Z",
    "valid_until": "2026-12-04T08:00:01.207Z", "used_at": "2026-11-28T17:42:10.031Z", "order_ref": "order-2041"
})))]
pub(crate) struct CouponRow {
    #[schema(value_type = Id)]
    pub(crate) id: String,
    #[schema(value_type = Id)]
    pub(crate) user_id: String,
    /// The coupon's number among its user's, as issued; its id if the template has no limit.
    #[schema(value_type = Id)]
    pub(crate) number: String,
    #[schema(value_type = Id)]
    pub(crate) claim_id: String,
    #[schema(value_type = schemas::CouponStatus)]
    pub(crate) status: &'static str,
    #[schema(value_type = Instant)]
    pub(crate) claimed_at: String,
    #[schema(value_type = Instant)]
    pub(crate) valid_from: String,
    #[schema(value_type = Instant)]
    pub(crate) valid_until: String,
    /// Null: it is not used.
    #[schema(value_type = Option<Instant>, required = true)]
    pub(crate) used_at: Option<String>,
    /// The order that used it. Null: it is not used.
    #[schema(required = true)]
    pub(crate) order_ref: Option<String>,
}
