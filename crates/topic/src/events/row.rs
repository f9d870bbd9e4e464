//! Rows carried by events, column by column, and the expiry wake-up.
//!
//! Times are milliseconds since 1970 in UTC. Codes are defined in crate `coupon`.

use serde::{Deserialize, Serialize};

/// A row of `user_coupon`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserCouponRow {
    pub id: i64,
    pub template_id: i64,
    pub user_id: i64,
    /// Claim number, from 1 to the limit; equal to `id` without a limit, after a return and for a replacement.
    pub claim_no: i64,
    pub claim_id: i64,
    /// Merchant of the template.
    pub merchant_id: i64,
    /// State code.
    pub status: u8,
    /// Incremented by each change; views apply only newer versions.
    pub version: i64,
    /// Hash of `user_id` modulo 64, as of the claim.
    pub expiry_shard: u8,
    pub claimed_at: i64,
    /// Time of the last change.
    pub changed_at: i64,
    /// First moment at which it can be used.
    pub valid_from: i64,
    /// First moment at which it can no longer be used.
    pub valid_until: i64,
    pub used_at: Option<i64>,
    /// Order for which it was used.
    pub order_ref: Option<String>,
    /// W3C trace context of the request that changed it last.
    pub trace_parent: Option<String>,
    /// The number with which it was issued, if it was returned; since then its `claim_no` is its `id`.
    #[serde(default)]
    pub issued_no: Option<i64>,
}

/// A row of `coupon_template`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateRow {
    pub id: i64,
    pub merchant_id: i64,
    /// Display name.
    pub name: String,
    /// Code of the discount kind.
    pub discount_kind: u8,
    /// In minor units, or in hundredths of a percent.
    pub discount_value: i64,
    /// Maximum discount of a percentage, in minor units.
    pub discount_cap: Option<i64>,
    /// Minimum order value, in minor units.
    pub minimum_spend: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// Maximum coupons per user: 0 for no limit, else 1 to 100.
    pub per_user_limit: i32,
    /// Maximum coupons in one claim.
    pub max_per_claim: i32,
    /// First moment of the claim window.
    pub claim_starts_at: i64,
    /// First moment after the claim window.
    pub claim_ends_at: i64,
    /// First moment at which its coupons can be used, if fixed.
    pub valid_from: Option<i64>,
    /// First moment at which its coupons can no longer be used, if fixed.
    pub valid_until: Option<i64>,
    /// Validity of its coupons from the claim, if not fixed.
    pub valid_for_ms: Option<i64>,
    /// 1 if users may redeem its coupons themselves. Events older than the column lack it: 0.
    #[serde(default)]
    pub self_redeem: u8,
    /// 1 if one order may redeem its coupons together with others. Events older than the column lack it: 1.
    #[serde(default = "stacks")]
    pub stackable: u8,
    /// Code of how its claims are answered. Events older than the column lack it: 0, direct.
    #[serde(default)]
    pub claim_mode: u8,
    /// Code of the copies that a queued claim must have before it is accepted. Events older than the column lack it: 2,
    /// the topic's.
    #[serde(default = "after_topic")]
    pub accept_after: u8,
    /// Time within which its coupons must be confirmed; 0: they are confirmed at once. Events older than the column
    /// lack it.
    #[serde(default)]
    pub hold_ms: i64,
    /// Lapses after which a user is refused; 0: never.
    #[serde(default)]
    pub lapses_allowed: i32,
    /// Code of what becomes of returned units.
    #[serde(default)]
    pub returned_stock: u8,
    /// State code.
    pub state: u8,
    /// Incremented by each change.
    pub version: i64,
    pub created_at: i64,
    /// Time of the last change.
    pub changed_at: i64,
}

/// Templates older than the column are stackable.
fn stacks() -> u8 {
    1
}

/// Templates older than the column queue nothing, and get the safest value.
fn after_topic() -> u8 {
    2
}

/// A row of `stock_movement`: a change of a template's total or stock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockMovementRow {
    pub template_id: i64,
    /// 1, 2, 3… within the template.
    pub seq: i64,
    /// Coupons added, or removed if negative.
    pub delta: i64,
    /// Reason given by the operator.
    pub reason: String,
    /// Operator who made the change.
    pub actor: String,
    pub created_at: i64,
    /// Idempotency key of the request, in base64; `None` for a template's creation, a return or a lift.
    pub request_id: Option<String>,
    /// The total in the first response.
    pub total_after: Option<i64>,
    /// The stock left in the first response.
    pub stock_after: Option<i64>,
    /// Code of its kind: 0 a change of the total, 1 a return, 2 the lift of a ban. Events older than the column lack
    /// it.
    #[serde(default)]
    pub kind: u8,
    /// Change of the stock, if it is not `delta`.
    #[serde(default)]
    pub delta_stock: Option<i64>,
    /// What users get back, in the form of [`coupon::read_returned`].
    #[serde(default)]
    pub returned: Option<String>,
}

/// Wakes the expiry worker of a shard at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiryWakeUp {
    /// Shard with a coupon to expire.
    pub shard: u8,
    /// Exact earliest deadline within the coalesced second, in milliseconds since 1970.
    pub deadline_ms: i64,
}
