//! The redemption of an order, as it waits in its queue.

use coupon::{CouponId, MerchantId, UserId};
use mysql_store::{
    redemption::Redemption,
    redemption_order::{Digest, Redeemed},
};

use crate::{auth::Operator, shop::batch_queue::Batched};

/// One order's redemption, as requested.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) shop: Operator,
    pub(crate) order_ref: String,
    /// `None`: any user who has all of the coupons.
    pub(crate) user: Option<UserId>,
    /// In minor units.
    pub(crate) amount: i64,
    pub(crate) currency: String,
    /// By id, each once.
    pub(crate) coupons: Vec<CouponId>,
    pub(crate) digest: Digest,
}

/// What an order has redeemed now, for the first time.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) redeemed: Redeemed,
    /// In the order of application.
    pub(crate) redemptions: Vec<Redemption>,
}

impl Batched for Wanted {
    type Made = Made;
    type Thing = CouponId;

    fn merchant(&self) -> MerchantId {
        self.shop.merchant_id
    }

    fn name(&self) -> &str {
        &self.order_ref
    }

    fn things(&self) -> &[CouponId] {
        &self.coupons
    }
}
