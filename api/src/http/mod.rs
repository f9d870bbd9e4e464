//! Requests and answers as HTTP has them: checks, extraction, headers, and the schemas that all operations share.

pub(crate) mod accept;
pub(crate) mod cors;
pub(crate) mod csv;
pub(crate) mod cursor;
pub(crate) mod etag;
pub(crate) mod events;
pub(crate) mod extract;
pub(crate) mod headers;
pub(crate) mod instant;
pub(crate) mod packed;
pub(crate) mod parameters;
pub(crate) mod request_checks;
pub(crate) mod request_span;
pub(crate) mod schemas;
