//! Bodies that several operations share.

pub(crate) mod claim_body;
pub(crate) mod coupon_json;
pub(crate) mod discount_json;
pub(crate) mod history_rows;
pub(crate) mod template_json;
pub(crate) mod template_rows;
