//! Every error that a client sees: RFC 9457 problem bodies with a stable code.
//!
//! Text from the database is never sent: internal errors are logged where they happen.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{access, code::Code};

/// An error as the client sees it.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    code: Code,
    detail: String,
    /// Absent: the same request would meet the same problem.
    retry_after_seconds: Option<u32>,
    /// Whether other transactions were in the way, so that the same work may be tried again at once.
    contended: bool,
    /// Whether the requested change may have been made.
    is_unknown: bool,
    /// Where the request's outcome can be read.
    location: Option<String>,
    more: Map<String, Value>,
}

impl Problem {
    /// Makes a problem. If the same request may succeed later, it says when to send it: after one to three seconds.
    /// Jitter spreads out clients that were refused together.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            retry_after_seconds: code.is_retryable().then(|| fastrand::u32(1..=3)),
            contended: false,
            is_unknown: false,
            location: None,
            more: Map::new(),
        }
    }

    /// The caller is not known.
    pub(crate) fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(Code::Unauthenticated, detail)
    }

    /// The caller has exceeded its rate, and may come back in `seconds`.
    pub(crate) fn too_many(seconds: u32) -> Self {
        let detail = format!("Too many requests in a short time. Come back in {seconds} s.");
        Self::new(Code::RateLimited, detail).after(seconds)
    }

    /// The caller has looked up too many claims that nothing is known of, and may look up another in `seconds`.
    pub(crate) fn too_many_lookups(seconds: u32) -> Self {
        let detail = format!(
            "Nothing is known of this claim yet, and too many such claims were looked up in a short time. Look \
             again in {seconds} s."
        );
        Self::new(Code::TooManyLookups, detail).after(seconds)
    }

    /// The caller's merchant has used up its hourly quota, and may come back in `seconds`.
    pub(crate) fn hour_is_used_up(seconds: u32, detail: impl Into<String>) -> Self {
        Self::new(Code::HourlyQuotaExceeded, detail).after(seconds)
    }

    /// Says when to send the request again.
    fn after(self, seconds: u32) -> Self {
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    pub(crate) fn no_store() -> Self {
        let detail = "The database did not answer. Send the request again.";
        Self::new(Code::StoreUnavailable, detail).unknown()
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
        Self { retry_after_seconds: None, detail: detail.to_owned(), ..self }
    }

    /// Says that the same request would meet the same problem, even if its code is retryable.
    pub(crate) fn finally(self) -> Self {
        Self { retry_after_seconds: None, ..self }
    }

    /// Sets the `Location` of what may have been made.
    pub(crate) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Code and detail, for an answer that reports a refusal without being one.
    pub(crate) fn reason(self) -> (&'static str, String) {
        (self.code.word(), self.detail)
    }

    /// Another call changed meanwhile what this one had read. Nothing was done, and the same work can be tried again.
    pub(crate) fn overtaken() -> Self {
        let detail = "Other calls were faster at every try. Send the request again.";
        Self { contended: true, ..Self::new(Code::StoreUnavailable, detail) }
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.contended
    }

    /// Returns a member of the body that [`Problem::with`] added.
    pub(crate) fn member(&self, name: &str) -> Option<&Value> {
        self.more.get(name)
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
        if error.is_conflict() {
            runtime::seldom!("requests meet others at MySQL's rows", runtime::report(&error));
            return Self::overtaken();
        }
        runtime::seldom!("requests fail at MySQL", runtime::report(&error));
        Self::no_store()
    }
}

impl From<landing::ids::IdError> for Problem {
    fn from(error: landing::ids::IdError) -> Self {
        runtime::seldom!("no id can be made", runtime::report(&error));
        Self::new(Code::Overloaded, "No id can be made at the moment. Send the request again.")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let unknown = self.is_unknown.then(|| self.clone());
        let status =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let members = Members {
            code: self.code.word(),
            detail: &self.detail,
            request_id: access::current_id(),
            retryable: self.retry_after_seconds.is_some(),
            status: status.as_u16(),
            title: self.code.title(),
            // A URN, so that the type is stable wherever the documentation lives (docs/errors.md).
            kind: format!("urn:coupon:problem:{}", self.code.word()),
        };
        let body = members.body(self.more);
        let problem = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, problem)], body).into_response();
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(location) = self.location.and_then(|to| HeaderValue::from_str(&to).ok()) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(unknown) = unknown {
            response.extensions_mut().insert(unknown);
        }
        // Counted apart from other problems. Most answers are refusals of a sale that is over, and need no such mark.
        if self.code == Code::Overloaded {
            response.extensions_mut().insert(self.code);
        }
        response
    }
}

/// The members of every problem's body, in the order of their names.
#[derive(Serialize)]
struct Members<'a> {
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    retryable: bool,
    status: u16,
    title: &'static str,
    #[serde(rename = "type")]
    kind: String,
}

impl Members<'_> {
    /// Returns the body, with further members in the order of the names. Most problems have none, and a sale that is sold
    /// out sends tens of thousands a second, so these are written at once.
    fn body(&self, more: Map<String, Value>) -> String {
        if more.is_empty() {
            return serde_json::to_string(self).unwrap_or_default();
        }
        let mut body = more;
        if let Value::Object(members) = json!(self) {
            body.extend(members);
        }
        Value::Object(body).to_string()
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
    fn clients_refused_at_one_moment_get_different_waits() {
        let spread = BTreeSet::from([1, 2, 3]);
        assert_eq!(waits(|| Problem::new(Code::Overloaded, "")), spread);
        assert_eq!(waits(|| Problem::new(Code::Paused, "")), spread);
    }

    #[test]
    fn a_body_is_the_same_whether_it_is_written_at_once_or_with_further_members() {
        for request_id in [None, Some("an \"id\"".to_owned())] {
            let members = Members {
                code: "SOLD_OUT",
                detail: "Nothing is left.",
                request_id,
                retryable: false,
                status: 409,
                title: "Sold out",
                kind: "urn:coupon:problem:SOLD_OUT".to_owned(),
            };
            assert_eq!(members.body(Map::new()), json!(members).to_string());
            let more = Map::from_iter([("left".to_owned(), json!(3))]);
            let with_more: Value = serde_json::from_str(&members.body(more)).unwrap();
            assert_eq!((&with_more["left"], &with_more["status"]), (&json!(3), &json!(409)));
        }
    }

    #[test]
    fn a_final_refusal_has_no_retry_after() {
        for problem in [Problem::new(Code::SoldOut, ""), Problem::new(Code::Paused, "").finally()] {
            let answer = problem.into_response();
            assert!(!answer.headers().contains_key(header::RETRY_AFTER));
        }
    }
}
