//! HTTP: hostile and broken input, equal requests, headers, tokens, the described API.

pub(crate) mod bad_input;
pub(crate) mod broken_requests;
pub(crate) mod connections;
pub(crate) mod console;
pub(crate) mod damaged_rows;
pub(crate) mod equal_requests;
pub(crate) mod error_codes;
pub(crate) mod foreign;
pub(crate) mod headers;
pub(crate) mod jwks;
pub(crate) mod rate_limit;
pub(crate) mod times;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod openapi;
}
