//! For a shopper: claims and coupons.

pub(crate) mod claim_events;
pub(crate) mod claim_poll;
pub(crate) mod claims;
pub(crate) mod coupon_use;
pub(crate) mod coupons;
pub(crate) mod last_event;
pub(crate) mod my_templates;
pub(crate) mod waiting;
