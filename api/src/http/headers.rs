//! Request headers that the platform reads, besides authentication.

use axum::http::{HeaderMap, HeaderValue};
use coupon::{RequestId, Template};
use runtime::trace;

use crate::{code::Code, problem::Problem};

/// Returns the claim's key. It may be absent if the limit per user is 1 and coupons are not held: the template itself
/// is the key then. Under that key, each claim after a lapse would get the answer of the lapsed one.
pub(crate) fn request_id(headers: &HeaderMap, template: &Template) -> Result<RequestId, Problem> {
    match idempotency_key(headers)? {
        Some(key) => Ok(key),
        None if template.per_user_limit == 1 && !template.hold.holds() => Ok(RequestId::absent()),
        None => {
            let detail =
                "Send a new `Idempotency-Key` with each claim, and the same one with a retry.";
            Err(Problem::new(Code::IdempotencyKeyMissing, detail))
        }
    }
}

/// Returns the `Idempotency-Key`, if there is one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<RequestId>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        let detail = "Send one `Idempotency-Key`: which of several counts, nobody can know.";
        return Err(Problem::new(Code::IdempotencyKeyInvalid, detail));
    }
    let text = value.to_str().unwrap_or("");
    RequestId::from_client(text).map(Some).map_err(|error| {
        let detail = format!("The `Idempotency-Key`: {error}.");
        Problem::new(Code::IdempotencyKeyInvalid, detail)
    })
}

/// Returns the trace id of a request, if its traceparent is valid.
pub(crate) fn trace_id(headers: &HeaderMap) -> Option<u128> {
    trace::trace_id(trace_parent(headers)?)
}

/// Returns the W3C traceparent, if it is valid. Anything else is ignored, as the recommendation asks.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get("traceparent").map(HeaderValue::to_str)?.ok()?;
    trace::trace_id(text).map(|_| text)
}
