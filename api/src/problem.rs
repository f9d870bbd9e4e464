//! Every error that a client sees: RFC 9457 problem bodies with a stable code.
//!
//! Text from the database is never sent: internal errors are logged where they happen.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use crate::code::Code;

/// An error as the client sees it.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    code: Code,
    detail: String,
    /// Whether the same request may succeed later.
    retryable: bool,
    retry_after_seconds: Option<u32>,
    /// Whether other transactions were in the way, so that the same work may be tried again at once.
    contended: bool,
    /// Whether the requested change may have been made.
    is_unknown: bool,
    more: Map<String, Value>,
}

impl Problem {
    /// Makes a problem that the same request would meet again.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            retryable: false,
            retry_after_seconds: None,
            contended: false,
            is_unknown: false,
            more: Map::new(),
        }
    }

    /// Something is unavailable now. The same request, with the same key, may be sent again.
    pub(crate) fn unavailable(code: Code, detail: impl Into<String>) -> Self {
        Self::new(code, detail).retry_after()
    }

    /// The caller is not known.
    pub(crate) fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(Code::Unauthenticated, detail)
    }

    /// Says that the same request may be sent again after one to three seconds. Jitter spreads out clients that were
    /// refused together.
    pub(crate) fn retry_after(mut self) -> Self {
        self.retryable = true;
        self.retry_after_seconds = Some(fastrand::u32(1..=3));
        self
    }

    /// The caller has exceeded its rate, and may come back in `seconds`.
    pub(crate) fn too_many(seconds: u32) -> Self {
        let detail = format!("Too many requests in a short time. Come back in {seconds} s.");
        let problem = Self::new(Code::RateLimited, detail);
        Self { retryable: true, retry_after_seconds: Some(seconds), ..problem }
    }

    /// The caller's merchant has used up its hourly quota, and may come back in `seconds`.
    pub(crate) fn hour_is_used_up(seconds: u32, detail: impl Into<String>) -> Self {
        let problem = Self::new(Code::HourlyQuotaExceeded, detail);
        Self { retryable: true, retry_after_seconds: Some(seconds), ..problem }
    }

    pub(crate) fn no_store() -> Self {
        let detail = "The database did not answer. Send the request again.";
        Self::unavailable(Code::StoreUnavailable, detail).unknown()
    }

    /// Says that the requested change may have been made.
    pub(crate) fn unknown(self) -> Self {
        Self { is_unknown: true, ..self }
    }

    /// Advises against sending the same request again, if its change may have been made: it would be made twice.
    pub(crate) fn without_retry(self) -> Self {
        if !self.is_unknown {
            return self;
        }
        let detail = "Whether it was done is unknown. Look before you send it again; with an \
                      `Idempotency-Key` it could be sent again as it is.";
        Self { retryable: false, retry_after_seconds: None, detail: detail.to_owned(), ..self }
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.contended
    }

    /// Adds a member to the body.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

/// The template does not exist, or belongs to another merchant.
pub(crate) fn unknown_template() -> Problem {
    Problem::new(Code::TemplateNotFound, "There is no such template.")
}

impl From<mysql_store::StoreError> for Problem {
    fn from(error: mysql_store::StoreError) -> Self {
        tracing::error!(error = runtime::report(&error), "a request failed at MySQL");
        let contended = error.is_conflict();
        Self { contended, ..Self::no_store() }
    }
}

impl From<landing::ids::IdError> for Problem {
    fn from(error: landing::ids::IdError) -> Self {
        tracing::error!(error = runtime::report(&error), "no id can be made");
        Self::unavailable(
            Code::Overloaded,
            "No id can be made at the moment. Send the request again.",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let unknown = self.is_unknown.then(|| self.clone());
        let status =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut body = self.more;
        // A URN, so that the type is stable wherever the documentation lives (docs/errors.md).
        body.insert("type".to_owned(), json!(format!("urn:coupon:problem:{}", self.code.word())));
        body.insert("title".to_owned(), json!(self.code.title()));
        body.insert("status".to_owned(), json!(status.as_u16()));
        body.insert("detail".to_owned(), json!(self.detail));
        body.insert("code".to_owned(), json!(self.code.word()));
        body.insert("retryable".to_owned(), json!(self.retryable));
        let problem = HeaderValue::from_static("application/problem+json");
        let mut response =
            (status, [(header::CONTENT_TYPE, problem)], Value::Object(body).to_string())
                .into_response();
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(unknown) = unknown {
            response.extensions_mut().insert(unknown);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Clients that are refused at one moment: so many that each of the three waits occurs with near certainty.
    const CROWD: usize = 1_000;

    /// Returns the waits that a crowd is sent, in seconds.
    fn waits(problem: impl Fn() -> Problem) -> BTreeSet<u32> {
        let wait = |_| {
            let answer = problem().into_response();
            answer.headers()[header::RETRY_AFTER].to_str().unwrap().parse().unwrap()
        };
        (0..CROWD).map(wait).collect()
    }

    #[test]
    fn who_is_refused_together_is_not_told_to_come_back_together() {
        let spread = BTreeSet::from([1, 2, 3]);
        assert_eq!(waits(|| Problem::unavailable(Code::Overloaded, "")), spread);
        assert_eq!(waits(|| Problem::new(Code::Paused, "").retry_after()), spread);
    }

    #[test]
    fn what_is_not_to_be_sent_again_says_no_time() {
        let answer = Problem::new(Code::SoldOut, "").into_response();
        assert!(!answer.headers().contains_key(header::RETRY_AFTER));
    }
}
