//! Clients that write: one message with its answer, ordered streams, one fenced writer.

pub(crate) mod fenced;
mod introduced;
pub(crate) mod ordered;
mod polled;
pub(crate) mod producer;
pub(crate) mod watermark;
