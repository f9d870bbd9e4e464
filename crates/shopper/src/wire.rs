//! Bodies of the API contract, as far as the demo, tests and benches read them.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, CouponId, TemplateId, UserId};
use serde::{Deserialize, Serialize};

/// A template to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewTemplate {
    pub name: String,
    pub discount: Discount,
    pub total_stock: i64,
    /// The most coupons that one user may hold; 0 for no limit.
    pub per_user_limit: u32,
    /// The most coupons per claim.
    pub max_per_claim: u32,
    /// Start of the claim window.
    pub claim_starts_at: DateTime<Utc>,
    /// End of the claim window, exclusive.
    pub claim_ends_at: DateTime<Utc>,
    /// How long a coupon is valid from its claim on, in milliseconds.
    pub valid_for_ms: i64,
    /// Whether users redeem its coupons themselves.
    pub self_redeem: bool,
    /// Whether one order may redeem its coupons together with others.
    pub stackable: bool,
    /// `direct`, `queued` or `spill`; the server's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_mode: Option<&'static str>,
    /// What a 202 waits for: `gate`, `replica` or `topic`; the server's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_after: Option<&'static str>,
    /// Time within which its coupons must be confirmed, in milliseconds; absent: they are confirmed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<i64>,
    /// Lapses after which a user is refused; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lapses_allowed: Option<u32>,
    /// `resell` or `retire`; the server's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned_stock: Option<&'static str>,
}

/// A coupon's discount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discount {
    /// `amount_off`: the crowd needs no other kind.
    pub kind: String,
    /// What an `amount_off` takes off, in minor units.
    pub amount_off_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
}

impl NewTemplate {
    /// A template of coupons of five euros, one for each user, claimable for an hour from `now` on
    /// and valid for `valid_for`.
    pub fn simple(name: &str, stock: i64, now: DateTime<Utc>, valid_for: TimeDelta) -> Self {
        Self {
            name: name.to_owned(),
            discount: Discount {
                kind: "amount_off".to_owned(),
                amount_off_minor: 500,
                currency: "EUR".to_owned(),
            },
            total_stock: stock,
            per_user_limit: 1,
            max_per_claim: 1,
            // The api's clock decides; one second of skew must not matter.
            claim_starts_at: now - TimeDelta::seconds(1),
            claim_ends_at: now + TimeDelta::hours(1),
            valid_for_ms: valid_for.num_milliseconds(),
            self_redeem: false,
            stackable: true,
            claim_mode: None,
            accept_after: None,
            hold_ms: None,
            lapses_allowed: None,
            returned_stock: None,
        }
    }

    /// Sets how long coupons are held unless they are confirmed.
    #[must_use]
    pub fn held_for(self, hold: TimeDelta) -> Self {
        Self { hold_ms: Some(hold.num_milliseconds()), ..self }
    }

    /// Sets the claim mode, and what a 202 waits for.
    #[must_use]
    pub fn in_mode(self, mode: &'static str, accept_after: &'static str) -> Self {
        Self { claim_mode: Some(mode), accept_after: Some(accept_after), ..self }
    }
}

/// A template as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Template {
    pub id: TemplateId,
    pub name: String,
    /// `draft`, `published`, `paused` or `ended`.
    pub state: String,
    /// Incremented with every change.
    pub version: i64,
}

/// A template's stock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Stock {
    /// Coupons made available.
    pub total: i64,
    /// Coupons claimed, without those that came back.
    pub landed: i64,
    /// Those of them that are held; absent: too many to count.
    #[serde(default)]
    pub held: Option<i64>,
    /// Coupons left.
    pub stock: i64,
    /// Claims in flight; absent while the gate is not loaded.
    pub in_flight: Option<i64>,
    /// The gate's stock; absent while the gate is not loaded.
    pub gate_stock: Option<i64>,
    /// Violation of the conservation identity; absent while the gate is not loaded.
    pub drift: Option<i64>,
}

/// A landed claim.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Claimed {
    pub id: ClaimId,
    pub template_id: TemplateId,
    pub user_id: UserId,
    pub quantity: u32,
    /// When its coupons end.
    pub valid_until: DateTime<Utc>,
    /// When its coupons lapse unless they are confirmed; absent: they are not held.
    #[serde(default)]
    pub held_until: Option<DateTime<Utc>>,
    pub coupons: Vec<Issued>,
}

/// A coupon in a claim's answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Issued {
    pub id: CouponId,
}

/// A coupon as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Coupon {
    pub id: CouponId,
    pub template_id: TemplateId,
    /// The claim that created it.
    pub claim_id: ClaimId,
    /// `unused`, `used`, `expired`, `cancelled`, `held` or `lapsed`.
    pub status: String,
    /// End of its validity, exclusive; of a held coupon, of its hold.
    pub valid_until: DateTime<Utc>,
    /// The order that it is used for.
    #[serde(default)]
    pub order_ref: Option<String>,
}

/// A page of a user's coupons.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CouponPage {
    /// The coupons, newest first.
    pub data: Vec<Coupon>,
    /// Start of the next page, if there is one.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
}
