//! Queued claims on their way from the gate to their landing: the topic `claims`, and how far it has landed.

pub(crate) mod message;
pub(crate) mod offsets;
pub(crate) mod partition;
pub(crate) mod payment;
mod prefetch;
pub(crate) mod producer;
pub(crate) mod progress;
pub(crate) mod reader;
