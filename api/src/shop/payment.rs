//! The payment for held coupons, as it waits in its queue.

use std::slice;

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, MerchantId};
use mysql_store::{confirmation_batch::RequestedPayment, user_coupon::UserCoupon};

use crate::shop::batch_queue::Batched;

/// One payment, as requested. Nothing is known of its claim yet.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) merchant: MerchantId,
    pub(crate) payment_ref: String,
    pub(crate) claim: ClaimId,
    /// By id, each once; `None`: all of the claim.
    pub(crate) coupons: Option<Vec<CouponId>>,
    /// Who confirms it.
    pub(crate) actor: String,
}

/// What a payment has confirmed now, for the first time.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) confirmed_at: DateTime<Utc>,
    pub(crate) coupons: Vec<UserCoupon>,
}

impl Wanted {
    pub(crate) fn asked(&self) -> RequestedPayment<'_> {
        RequestedPayment {
            payment_ref: &self.payment_ref,
            claim: self.claim,
            coupons: self.coupons.as_deref(),
            actor: &self.actor,
        }
    }
}

impl Batched for Wanted {
    type Made = Made;
    type Thing = ClaimId;

    fn merchant(&self) -> MerchantId {
        self.merchant
    }

    fn name(&self) -> &str {
        &self.payment_ref
    }

    fn things(&self) -> &[ClaimId] {
        slice::from_ref(&self.claim)
    }
}
