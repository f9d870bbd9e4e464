//! A landed claim, as its user and operators see it.

use coupon::{CouponStatus, LandedClaim, limit};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::http::{
    instant::instant,
    schemas::{Id, Instant},
};

/// A landed claim. It consists of values that never change: a replay has the same bytes.
#[derive(Serialize, ToSchema)]
#[schema(as = Claim, examples(example))]
pub(crate) struct ClaimBody {
    #[schema(value_type = Id)]
    id: String,
    #[schema(value_type = Id)]
    template_id: String,
    #[schema(value_type = Id)]
    user_id: String,
    quantity: usize,
    #[schema(value_type = Instant)]
    claimed_at: String,
    #[schema(value_type = Instant)]
    valid_from: String,
    #[schema(value_type = Instant)]
    valid_until: String,
    /// `held`: its coupons lapse unless the shop confirms them. Absent: they are confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^held$")]
    status: Option<&'static str>,
    /// When its coupons lapse unless they are confirmed, as issued. Absent: they are not held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Instant)]
    held_until: Option<String>,
    /// What was left of the hold when the claim was made, in milliseconds. Absent: the coupons are not held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, minimum = 0)]
    pay_within_ms: Option<i64>,
    coupons: Vec<CouponBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ClaimedCoupon)]
pub(crate) struct CouponBody {
    #[schema(value_type = Id)]
    id: String,
    /// The coupon's number among the user's, from 1 to the limit. Absent if the template has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, minimum = 1)]
    number: Option<i64>,
}

/// Example of a claim for the OpenAPI document.
pub(crate) fn example() -> Value {
    json!({
        "id": "2123985068924862465", "template_id": "2123985067360387072", "user_id": "42", "quantity": 1,
        "claimed_at": "2026-11-27T08:00:01.207Z", "valid_from": "2026-11-27T08:00:01.207Z",
        "valid_until": "2026-12-04T08:00:01.207Z",
        "coupons": [{ "id": "2123985068924862464", "number": 1 }],
    })
}

impl ClaimBody {
    pub(crate) fn of(claim: &LandedClaim) -> Self {
        let numbered = i64::from(limit::PER_USER_MAX);
        Self {
            id: claim.id.to_string(),
            template_id: claim.template_id.to_string(),
            user_id: claim.user_id.to_string(),
            quantity: claim.coupons.len(),
            claimed_at: instant(claim.claimed_at),
            valid_from: instant(claim.valid_from),
            valid_until: instant(claim.valid_until),
            status: claim.held_until.map(|_| CouponStatus::Held.word()),
            held_until: claim.held_until.map(instant),
            pay_within_ms: claim
                .held_until
                .map(|until| (until - claim.claimed_at).num_milliseconds()),
            coupons: claim
                .coupons
                .iter()
                .map(|coupon| CouponBody {
                    id: coupon.id.to_string(),
                    number: (coupon.claim_no <= numbered).then_some(coupon.claim_no),
                })
                .collect(),
        }
    }
}
