//! One answer to a claim, as far as a user acts on it.

use std::time::Duration;

use reqwest::{Response, header};
use serde::Deserialize;

/// What is said instead of an answer that did not come.
pub(crate) const NO_ANSWER: &str = "no answer";

/// An answer, or that none came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `None`: none came in time.
    pub(crate) status: Option<u16>,
    /// The code of a refusal.
    pub(crate) code: Option<String>,
    /// When to come again.
    pub(crate) after: Option<Duration>,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
}

impl Answer {
    pub(crate) fn none() -> Self {
        Self { status: None, code: None, after: None }
    }

    /// Reads an answer to its end.
    pub(crate) async fn read(response: Response) -> Result<Self, reqwest::Error> {
        let status = response.status().as_u16();
        let after = response.headers().get(header::RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.bytes().await?;
        let problem: Option<Problem> =
            if status < 400 { None } else { serde_json::from_slice(&body).ok() };
        let code = problem.map(|problem| problem.code);
        Ok(Self { status: Some(status), code, after: after.map(Duration::from_secs) })
    }

    /// Whether the same request is to be sent again: nobody knows, or the server cannot answer now.
    pub(crate) fn is_passing(&self) -> bool {
        match self.status {
            None | Some(408 | 425 | 429 | 500..=599) => true,
            Some(409) => self.code.as_deref() == Some("REQUEST_IN_PROGRESS"),
            Some(_) => false,
        }
    }

    /// Whether the user has a coupon, or the promise of one.
    pub(crate) fn is_promise(&self) -> bool {
        matches!(self.status, Some(201 | 202))
    }

    /// Whether a claim was decided: the user has what the sale had for them, even if that is nothing. Any other answer that is
    /// no "not now", such as 401, means that nobody looked at the claim.
    pub(crate) fn is_outcome(&self) -> bool {
        let is_over_limit = self.code.as_deref() == Some("LIMIT_REACHED");
        self.is_promise() || self.is_sold_out() || is_over_limit
    }

    pub(crate) fn is_sold_out(&self) -> bool {
        matches!(self.code.as_deref(), Some("SOLD_OUT" | "INSUFFICIENT_STOCK"))
    }

    /// Status and code, as a report counts them.
    pub(crate) fn word(&self) -> String {
        match (self.status, &self.code) {
            (None, _) => NO_ANSWER.to_owned(),
            (Some(status), None) => status.to_string(),
            (Some(status), Some(code)) => format!("{status} {code}"),
        }
    }
}
