//! An HTTP answer: status, the body byte for byte, and the headers of the API contract.

use hyper::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::ShopperError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The body, unchanged.
    pub body: String,
    /// Whether the server marked the answer as a replay.
    pub replayed: bool,
    /// The `Location` header.
    pub location: Option<String>,
    /// Seconds to wait before the next attempt, from the `Retry-After` header.
    pub retry_after: Option<u64>,
    /// The body's media type.
    pub content_type: String,
    headers: HeaderMap,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, headers: HeaderMap, body: String) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            status: status.as_u16(),
            body,
            replayed: header("idempotency-replayed") == Some("true"),
            location: header("location").map(str::to_owned),
            retry_after: header("retry-after").and_then(|text| text.parse().ok()),
            content_type: header("content-type").unwrap_or_default().to_owned(),
            headers,
        }
    }

    /// The first value of a header; `None` if it is absent or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// The body does not have this form.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ShopperError> {
        serde_json::from_str(&self.body)
            .map_err(|source| ShopperError::Unreadable { body: self.body.clone(), source })
    }

    /// The problem's code, if the body is a problem.
    pub fn code(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Problem {
            code: String,
        }
        self.json().ok().map(|problem: Problem| problem.code)
    }

    /// Whether the same request should be sent again: the server cannot answer now, or is still
    /// working on it.
    pub fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500..=599)
            || (self.status == 409 && self.code().as_deref() == Some("REQUEST_IN_PROGRESS"))
    }
}
