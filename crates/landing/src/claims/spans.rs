//! Trace spans of the two steps of a claim: gate and landing.

use coupon::Claim;
use runtime::trace::{self, Kind, Span};

/// The outcome, a label of [`super::label`].
pub(super) const OUTCOME: &str = "coupon.outcome";

/// Span of the gate call, including retries.
pub(super) fn gate(claim: &Claim) -> Span {
    let mut span = hop("claim.gate", claim);
    span.set("db.system.name", "redis");
    span
}

/// Span from the lander's queue to the outcome of the batch.
pub(super) fn landing(claim: &Claim) -> Span {
    let mut span = hop("claim.land", claim);
    span.set("db.system.name", "mysql");
    span
}

fn hop(name: &'static str, claim: &Claim) -> Span {
    trace::follow(name, Kind::Client, claim.trace_parent.as_deref())
}
