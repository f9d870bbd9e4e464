//! An answer as it came: status, body byte for byte, and the headers that the contract names.

use hyper::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::ShopperError;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body as it came.
    pub body: String,
    /// Whether the server called it a replay.
    pub replayed: bool,
    /// Where the thing is, if the answer says so.
    pub location: Option<String>,
    /// In how many seconds to come again, if the answer says so.
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

    /// A header's value, the first if there are several; absent also where it is no text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body, read.
    ///
    /// # Errors
    /// It is not of that form.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ShopperError> {
        serde_json::from_str(&self.body)
            .map_err(|source| ShopperError::Unreadable { body: self.body.clone(), source })
    }

    /// The problem's code, where the body is one.
    pub fn code(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Problem {
            code: String,
        }
        self.json().ok().map(|problem: Problem| problem.code)
    }

    /// Whether the same request should be sent again: the server is not able now, or is still at it.
    pub fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500..=599)
            || (self.status == 409 && self.code().as_deref() == Some("REQUEST_IN_PROGRESS"))
    }
}
