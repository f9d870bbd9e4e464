//! A queued claim as its user sees it: while it waits, and how it ended.

use axum::{
    http::{HeaderValue, header},
    response::Response,
};
use coupon::{ClaimId, LandedClaim, RejectReason};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    code::Code,
    http::schemas::Id,
    queue::QueueEstimate,
    routes::bodies::claim_body::{ClaimBody, example},
};

/// Fewest and most seconds after which a client is asked to look again.
const LOOK_SECONDS: (u64, u64) = (1, 30);

/// Seconds after which it is asked again if there is no estimate.
const LOOK_SECONDS_UNKNOWN: u64 = 2;

/// A claim that is still being processed.
#[derive(Serialize, ToSchema)]
#[schema(as = PendingClaim, examples(json!({
    "id": "2123985068924862465", "status": "processing", "position": 812, "estimated_ms": 160
})))]
pub(crate) struct WaitingBody {
    /// The claim. This and what follows are absent if a claim is asked for without its receipt.
    #[schema(value_type = Id, required = false)]
    id: String,
    #[schema(pattern = "^processing$")]
    status: &'static str,
    /// Claims that land before it. Null: not known at the moment.
    #[schema(minimum = 0, required = false)]
    position: Option<u64>,
    /// Estimated time until it lands, in milliseconds. Null: not known at the moment.
    #[schema(minimum = 0, required = false)]
    estimated_ms: Option<u64>,
}

/// A claim that has its outcome.
#[derive(Serialize, ToSchema)]
#[schema(as = FoundClaim, examples(json!({ "status": "landed", "claim": example() })))]
pub(crate) struct FoundBody {
    /// `landed`, or `rejected`: it was accepted into a queue, and did not land and never will.
    #[schema(pattern = "^(landed|rejected)$")]
    status: &'static str,
    /// Why it was rejected (docs/errors.md). `ADMISSION_LOST`: it was lost with its gate. Only for `rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    code: Option<&'static str>,
    /// Whether the same key may be sent again. Only for `rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool)]
    retryable: Option<bool>,
    /// The claim as a direct one is answered, byte by byte. Only for `landed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ClaimBody)]
    claim: Option<ClaimBody>,
}

impl WaitingBody {
    pub(crate) fn of(id: ClaimId, estimate: QueueEstimate) -> Self {
        let QueueEstimate { position, estimated_ms } = estimate;
        Self { id: id.to_string(), status: "processing", position, estimated_ms }
    }
}

impl FoundBody {
    pub(crate) fn landed(claim: &LandedClaim) -> Self {
        Self { status: "landed", code: None, retryable: None, claim: Some(ClaimBody::of(claim)) }
    }

    /// It was rejected, and its key with it.
    pub(crate) fn rejected(reason: RejectReason) -> Self {
        Self::without_claim(reason.word(), false)
    }

    /// It was lost with its gate, and its key is free.
    pub(crate) fn lost() -> Self {
        Self::without_claim(Code::AdmissionLost.word(), Code::AdmissionLost.is_retryable())
    }

    fn without_claim(code: &'static str, retryable: bool) -> Self {
        Self { status: "rejected", code: Some(code), retryable: Some(retryable), claim: None }
    }
}

/// Asks the client to look again about when the outcome is due.
pub(crate) fn with_retry_after(mut response: Response, estimate: QueueEstimate) -> Response {
    let seconds = estimate.estimated_ms.map_or(LOOK_SECONDS_UNKNOWN, |ms| ms.div_ceil(1_000));
    let seconds = seconds.clamp(LOOK_SECONDS.0, LOOK_SECONDS.1);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_are_as_documented() {
        let estimate = QueueEstimate { position: Some(812), estimated_ms: None };
        let waiting = serde_json::to_string(&WaitingBody::of(ClaimId(5), estimate)).unwrap();
        let documented = r#"{"id":"5","status":"processing","position":812,"estimated_ms":null}"#;
        assert_eq!(waiting, documented);
        let rejected = json!({ "status": "rejected", "code": "SOLD_OUT", "retryable": false });
        assert_eq!(json!(FoundBody::rejected(RejectReason::SoldOut)), rejected);
        let lost = json!({ "status": "rejected", "code": "ADMISSION_LOST", "retryable": true });
        assert_eq!(json!(FoundBody::lost()), lost);
    }

    #[test]
    fn every_reason_of_a_rejection_that_is_written_is_a_code() {
        // Nothing cancels claims yet.
        let written = RejectReason::ALL.into_iter().filter(|it| *it != RejectReason::Cancelled);
        for reason in written {
            assert!(Code::from_word(reason.word()).is_some(), "{reason:?}");
        }
    }

    #[test]
    fn a_client_looks_again_when_its_claim_is_due_and_not_all_the_time() {
        let seconds = |estimated_ms| {
            let estimate = QueueEstimate { position: Some(9), estimated_ms };
            let response = with_retry_after(().into_response(), estimate);
            response.headers()[header::RETRY_AFTER].to_str().unwrap().to_owned()
        };
        let known = [Some(0), Some(1_001), Some(600_000), None].map(seconds);
        assert_eq!(known, ["1", "2", "30", "2"]);
    }
}
