//! Errors of calls: no answer, or an unexpected one.

use thiserror::Error;

use crate::lines::NoAnswer;

/// A call failed.
#[derive(Debug, Error)]
pub enum ShopperError {
    /// No answer came, so whether the request had an effect is unknown.
    #[error("no answer to {request}")]
    NoAnswer {
        /// Method and path.
        request: String,
        source: NoAnswer,
    },
    /// The answer is not the one that the call needs.
    #[error("{request} was answered {status}: {body}")]
    Refused {
        /// The request.
        request: String,
        status: u16,
        /// The body, usually a problem.
        body: String,
    },
    /// The answer's body violates the contract.
    #[error("the answer is not of the expected form: {body}")]
    Unreadable {
        /// The body as received.
        body: String,
        source: serde_json::Error,
    },
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
    /// The request cannot be built, e.g. because its key is not a valid header value.
    #[error("the request cannot be made")]
    Request(#[source] hyper::http::Error),
    /// The secret cannot sign tokens.
    #[error("a token cannot be signed")]
    Token(#[source] jsonwebtoken::errors::Error),
}
