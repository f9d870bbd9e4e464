//! What keeps a call from an answer, or its answer from being the expected one.

use thiserror::Error;

use crate::lines::NoAnswer;

/// A call did not give what it was made for.
#[derive(Debug, Error)]
pub enum ShopperError {
    /// No answer came: whether the request had an effect is unknown.
    #[error("no answer to {request}")]
    NoAnswer {
        /// Method and path.
        request: String,
        /// Why not.
        source: NoAnswer,
    },
    /// The answer is not the one that the call needs.
    #[error("{request} was answered {status}: {body}")]
    Refused {
        /// Method and path.
        request: String,
        /// The status.
        status: u16,
        /// The body, a problem as a rule.
        body: String,
    },
    /// The answer's body is not what the contract says.
    #[error("the answer is not of the expected form: {body}")]
    Unreadable {
        /// The body.
        body: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
    /// The request cannot be written down: a key that no header holds.
    #[error("the request cannot be made")]
    Request(#[source] hyper::http::Error),
    /// The secret cannot sign tokens.
    #[error("a token cannot be signed")]
    Token(#[source] jsonwebtoken::errors::Error),
}
