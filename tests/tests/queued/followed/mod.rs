//! A queued claim that its user follows: the bounds of streams, and a receipt that has lapsed.

pub(crate) mod lapsed;
pub(crate) mod streams;
