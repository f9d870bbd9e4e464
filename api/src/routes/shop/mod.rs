//! For a shop's own pages and its checkout.

pub(crate) mod batch;
pub(crate) mod checkout;
pub(crate) mod coupon_lock;
pub(crate) mod judge;
pub(crate) mod order_redemption;
pub(crate) mod orders_together;
pub(crate) mod page;
pub(crate) mod redemption;
pub(crate) mod redemption_json;
pub(crate) mod rollback;
pub(crate) mod templates;
pub(crate) mod validation;
