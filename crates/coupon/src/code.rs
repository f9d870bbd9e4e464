//! Codes of states and kinds, as they are stored.

use thiserror::Error;

/// A stored code that this version of the software does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("unknown {what} code {code}")]
pub struct UnknownCode {
    /// The kind of code.
    pub what: &'static str,
    pub code: u8,
}
