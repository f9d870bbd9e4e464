//! Bodies of the contract, as far as shoppers and operators of the demo, tests and benches read them.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, CouponId, TemplateId, UserId};
use serde::{Deserialize, Serialize};

/// A template to be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewTemplate {
    /// What people call it.
    pub name: String,
    /// What a coupon gives.
    pub discount: Discount,
    /// How many coupons.
    pub total_stock: i64,
    /// How many one user may hold; 0: no limit.
    pub per_user_limit: u32,
    /// How many one claim may ask for.
    pub max_per_claim: u32,
    /// First moment of the window.
    pub claim_starts_at: DateTime<Utc>,
    /// First moment after it.
    pub claim_ends_at: DateTime<Utc>,
    /// How long a coupon is valid from its claim on, in milliseconds.
    pub valid_for_ms: i64,
    /// Whether users redeem its coupons themselves.
    pub self_redeem: bool,
}

/// What a coupon gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discount {
    /// `amount_off`, `percent_off` or `free_shipping`.
    pub kind: String,
    /// Minor units, or hundredths of a percent.
    pub value: i64,
    /// ISO 4217.
    pub currency: String,
}

impl NewTemplate {
    /// Coupons of five euros, one for each user, to be claimed for an hour from `now` on and valid for
    /// `valid_for`.
    pub fn simple(name: &str, stock: i64, now: DateTime<Utc>, valid_for: TimeDelta) -> Self {
        Self {
            name: name.to_owned(),
            discount: Discount {
                kind: "amount_off".to_owned(),
                value: 500,
                currency: "EUR".to_owned(),
            },
            total_stock: stock,
            per_user_limit: 1,
            max_per_claim: 1,
            // The api's clock decides; a second's difference between clocks shall not matter.
            claim_starts_at: now - TimeDelta::seconds(1),
            claim_ends_at: now + TimeDelta::hours(1),
            valid_for_ms: valid_for.num_milliseconds(),
            self_redeem: false,
        }
    }
}

/// A template as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// What people call it.
    pub name: String,
    /// `draft`, `published`, `paused` or `ended`.
    pub state: String,
    /// Rises by one with every change.
    pub version: i64,
}

/// A template's account.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Stock {
    /// How many coupons were made available.
    pub total: i64,
    /// How many were claimed.
    pub landed: i64,
    /// How many are left.
    pub stock: i64,
    /// How many claims are under way; absent while the gate is not loaded.
    pub in_flight: Option<i64>,
    /// What the gate has left; absent while it is not loaded.
    pub gate_stock: Option<i64>,
    /// What does not add up; absent while the gate is not loaded.
    pub drift: Option<i64>,
}

/// A landed claim.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Claimed {
    /// Its id.
    pub id: ClaimId,
    /// Of which template.
    pub template_id: TemplateId,
    /// Whose.
    pub user_id: UserId,
    /// How many coupons.
    pub quantity: u32,
    /// When they end.
    pub valid_until: DateTime<Utc>,
    /// Its coupons.
    pub coupons: Vec<Issued>,
}

/// A coupon in a claim's answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Issued {
    /// Its id.
    pub id: CouponId,
}

/// A coupon as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Coupon {
    /// Its id.
    pub id: CouponId,
    /// Of which template.
    pub template_id: TemplateId,
    /// The claim that made it.
    pub claim_id: ClaimId,
    /// `unused`, `used` or `expired`.
    pub status: String,
    /// First moment it cannot be used any more.
    pub valid_until: DateTime<Utc>,
    /// The order that it is used for.
    #[serde(default)]
    pub order_ref: Option<String>,
}

/// A page of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CouponPage {
    /// The coupons, the newest first.
    pub data: Vec<Coupon>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
    /// Whether there is one.
    pub has_more: bool,
}
