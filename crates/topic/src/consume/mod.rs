//! Clients that read: members of groups, whole topics, offsets.

pub(crate) mod consumer;
pub(crate) mod history;
pub(crate) mod member;
pub(crate) mod offsets;
pub(crate) mod positions;
pub(crate) mod table;
#[cfg(feature = "verify")]
pub mod verify;
