//! Holds: coupons that a claim issued until they are paid for, their confirmation, their cancellation, payments that
//! came too late, and users who let too many of them lapse.

pub(crate) mod bans;
pub(crate) mod cancel;
pub(crate) mod confirm;
mod confirm_batch;
pub(crate) mod find;
pub(crate) mod late;
pub(crate) mod metric;
