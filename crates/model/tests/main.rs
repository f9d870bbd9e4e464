//! The protocols hold within bounds, and the search finds what breaks them.

#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod claim;
mod view;
