//! An answer as it came: status, body byte for byte, and the headers that the contract names.

use reqwest::{Response, header::HeaderMap};
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
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Result<Self, reqwest::Error> {
        let header = |headers: &HeaderMap, name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let headers = response.headers();
        let mut answer = Self {
            status: response.status().as_u16(),
            body: String::new(),
            replayed: header(headers, "idempotency-replayed").as_deref() == Some("true"),
            location: header(headers, "location"),
            retry_after: header(headers, "retry-after").and_then(|text| text.parse().ok()),
            content_type: header(headers, "content-type").unwrap_or_default(),
        };
        answer.body = response.text().await?;
        Ok(answer)
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
