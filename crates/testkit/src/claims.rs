//! A template, a claim and what lands of it, with plausible values. A test names the fields that it is about:
//! `Template { per_user_limit: 5, ..draft(id, now) }`.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{
    AcceptAfter, Claim, ClaimId, ClaimMode, CouponId, Discount, DiscountKind, HoldTerms,
    LandedClaim, LandedCoupon, MerchantId, PayloadHash, RequestId, Template, TemplateId,
    TemplateState, UserId, Validity, Window,
};

/// Merchant of the templates.
pub const MERCHANT: MerchantId = MerchantId(1);

/// A draft of [`MERCHANT`]: one coupon per user, claimable from an hour before `now` to an hour after, valid for a day.
pub fn draft(id: TemplateId, now: DateTime<Utc>) -> Template {
    Template {
        id,
        merchant_id: MERCHANT,
        name: "A sale".to_owned(),
        discount: Discount {
            kind: DiscountKind::AmountOff,
            value: 1_000,
            cap: None,
            minimum_spend: 0,
            currency: "EUR".to_owned(),
        },
        per_user_limit: 1,
        max_per_claim: 1,
        window: Window { starts_at: now - TimeDelta::hours(1), ends_at: now + TimeDelta::hours(1) },
        validity: Validity::Relative { valid_for: TimeDelta::days(1) },
        self_redeem: false,
        stackable: true,
        claim_mode: ClaimMode::Direct,
        accept_after: AcceptAfter::Topic,
        hold: HoldTerms::default(),
        state: TemplateState::Draft,
        version: 1,
    }
}

/// A claim of a user under `key`.
///
/// # Panics
/// No client may send this key.
pub fn claim(
    id: ClaimId,
    template_id: TemplateId,
    user_id: UserId,
    key: &str,
    quantity: u32,
    claimed_at: DateTime<Utc>,
) -> Claim {
    Claim {
        id,
        template_id,
        user_id,
        request_id: RequestId::from_client(key).unwrap(),
        payload_hash: PayloadHash::of_quantity(quantity),
        quantity,
        claimed_at,
        trace_parent: None,
    }
}

/// What lands of a claim: these coupons with their numbers, valid for a day from the claim.
pub fn landed(claim: &Claim, coupons: impl IntoIterator<Item = (CouponId, i64)>) -> LandedClaim {
    let coupons = coupons.into_iter().map(|(id, claim_no)| LandedCoupon { id, claim_no });
    LandedClaim {
        id: claim.id,
        template_id: claim.template_id,
        user_id: claim.user_id,
        payload_hash: claim.payload_hash,
        claimed_at: claim.claimed_at,
        valid_from: claim.claimed_at,
        valid_until: claim.claimed_at + TimeDelta::days(1),
        held_until: None,
        coupons: coupons.collect(),
    }
}
