//! The support desk: single coupons, grants to many users as jobs, and what a text names.

pub(crate) mod changes;
pub(crate) mod coupon_body;
pub(crate) mod coupons;
pub(crate) mod given;
pub(crate) mod grants;
pub(crate) mod jobs;
pub(crate) mod search;
