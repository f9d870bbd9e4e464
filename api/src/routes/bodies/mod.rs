//! Bodies that several operations share.

pub(crate) mod coupon_json;
pub(crate) mod template_json;
