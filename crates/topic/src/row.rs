//! The rows that events carry, column by column, and the expiry wake-up.
//!
//! Times are milliseconds since 1970 in UTC; codes are those of crate `coupon`.

use serde::{Deserialize, Serialize};

/// A row of `user_coupon`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserCouponRow {
    /// Coupon id.
    pub id: i64,
    /// Its template.
    pub template_id: i64,
    /// Its owner.
    pub user_id: i64,
    /// Which of the user's numbers 1..limit it has; equal to `id` where there is no limit.
    pub claim_no: i64,
    /// The claim it came from.
    pub claim_id: i64,
    /// The template's merchant.
    pub merchant_id: i64,
    /// State code.
    pub status: u8,
    /// Rises by one with each change; views apply only what is newer.
    pub version: i64,
    /// `user_id` modulo 64.
    pub expiry_shard: u8,
    /// When it was claimed.
    pub claimed_at: i64,
    /// When it changed last.
    pub changed_at: i64,
    /// First moment it can be used.
    pub valid_from: i64,
    /// First moment it cannot be used any more.
    pub valid_until: i64,
    /// When it was used.
    pub used_at: Option<i64>,
    /// The order it was used for.
    pub order_ref: Option<String>,
    /// The W3C trace context of the request that changed it last.
    pub trace_parent: Option<String>,
}

/// A row of `coupon_template`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateRow {
    /// Template id.
    pub id: i64,
    /// Its merchant.
    pub merchant_id: i64,
    /// Name, as shown to people.
    pub name: String,
    /// Code of the kind of discount.
    pub discount_kind: u8,
    /// Minor units, or hundredths of a percent.
    pub discount_value: i64,
    /// Most minor units a percentage takes off.
    pub discount_cap: Option<i64>,
    /// Minor units an order must reach.
    pub minimum_spend: i64,
    /// Currency, ISO 4217.
    pub currency: String,
    /// Coupons a user may hold: 0 no limit, else 1 to 100.
    pub per_user_limit: i32,
    /// Coupons one claim may ask for.
    pub max_per_claim: i32,
    /// First moment of the claim window.
    pub claim_starts_at: i64,
    /// First moment after the claim window.
    pub claim_ends_at: i64,
    /// First moment its coupons can be used, if fixed.
    pub valid_from: Option<i64>,
    /// First moment its coupons cannot be used any more, if fixed.
    pub valid_until: Option<i64>,
    /// How long its coupons live from their claim, if not fixed.
    pub valid_for_ms: Option<i64>,
    /// 1: users may redeem its coupons themselves. Absent in events from before the column: 0.
    #[serde(default)]
    pub self_redeem: u8,
    /// State code.
    pub state: u8,
    /// Rises by one with each change.
    pub version: i64,
    /// When it was created.
    pub created_at: i64,
    /// When it changed last.
    pub changed_at: i64,
}

/// A row of `stock_movement`: a change of a template's total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockMovementRow {
    /// Whose stock.
    pub template_id: i64,
    /// 1, 2, 3… within the template.
    pub seq: i64,
    /// How many coupons more (or, negative, fewer).
    pub delta: i64,
    /// Why, in the operator's words.
    pub reason: String,
    /// Who.
    pub actor: String,
    /// When.
    pub created_at: i64,
    /// The key under which it was asked for, in base64; absent: the template's creation.
    pub request_id: Option<String>,
    /// What the first answer said of the total.
    pub total_after: Option<i64>,
    /// And of what was left.
    pub stock_after: Option<i64>,
}

/// Wakes the expiry worker of a shard at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiryWakeUp {
    /// The shard with something to expire.
    pub shard: u8,
    /// The exact earliest deadline in the coalesced second, milliseconds since 1970.
    pub deadline_ms: i64,
}
