//! The topics and the shape of their messages.

pub(crate) mod claim_stats;
pub(crate) mod event;
pub(crate) mod expiring;
pub(crate) mod message;
pub(crate) mod names;
pub(crate) mod row;
