//! Spans for the hop from the topic to MySQL, in the traces of the requests behind the claims.

use coupon::QueuedClaim;
use runtime::trace::{self, Kind, Span};

/// Starts a span for each sampled claim; they end together with the batch.
pub(crate) fn of(claims: &[QueuedClaim]) -> Vec<Span> {
    if !trace::is_on() {
        return Vec::new();
    }
    claims.iter().map(span).filter(|span| !span.is_empty()).collect()
}

fn span(queued: &QueuedClaim) -> Span {
    let claim = &queued.admission.claim;
    let parent = claim.trace_parent.as_deref();
    let mut span = trace::follow("claim-lander.land", Kind::Consumer, parent);
    if !span.is_empty() {
        span.set("messaging.system", "kafka");
        span.set("coupon.claim.id", claim.id.to_string());
        span.set("db.system.name", "mysql");
    }
    span
}
