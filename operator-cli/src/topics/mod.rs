//! What is read from the topics: a live watch, and dead letters.

pub(crate) mod dead_letter;
pub(crate) mod letter;
pub(crate) mod replay;
pub(crate) mod watch;
