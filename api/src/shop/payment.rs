//! The payment for held coupons, as it waits for others.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, MerchantId, TemplateId};
use mysql_store::{confirmation::Payment, user_coupon::UserCoupon};

use crate::shop::batch_queue::Batched;

/// One payment, as requested.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) merchant: MerchantId,
    pub(crate) payment_ref: String,
    pub(crate) claim: ClaimId,
    pub(crate) template: TemplateId,
    /// By id, each once.
    pub(crate) coupons: Vec<CouponId>,
}

/// What a payment has confirmed now, for the first time.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) confirmed_at: DateTime<Utc>,
    pub(crate) coupons: Vec<UserCoupon>,
}

impl Wanted {
    /// The payment as it is taken at this time.
    pub(crate) fn at(&self, now: DateTime<Utc>) -> Payment<'_> {
        Payment {
            merchant: self.merchant,
            payment_ref: &self.payment_ref,
            claim: self.claim,
            template: self.template,
            coupons: &self.coupons,
            now,
        }
    }
}

impl Batched for Wanted {
    type Made = Made;

    fn merchant(&self) -> MerchantId {
        self.merchant
    }

    fn name(&self) -> &str {
        &self.payment_ref
    }

    fn coupons(&self) -> &[CouponId] {
        &self.coupons
    }
}
