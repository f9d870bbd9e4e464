//! The support desk: single coupons, and grants to many users as jobs.

pub(crate) mod changes;
pub(crate) mod coupon_body;
pub(crate) mod coupons;
pub(crate) mod given;
pub(crate) mod grants;
pub(crate) mod jobs;
