//! The two hops of a claim that its trace shows beside the request.

use coupon::Claim;
use runtime::trace::{self, Kind, Span};

/// What became of it: a word of [`super::label`].
pub(super) const OUTCOME: &str = "coupon.outcome";

/// The gate's answer, with what was asked again.
pub(super) fn gate(claim: &Claim) -> Span {
    let mut span = hop("claim.gate", claim);
    span.set("db.system.name", "redis");
    span
}

/// From the lander's queue to what became of the batch.
pub(super) fn landing(claim: &Claim) -> Span {
    let mut span = hop("claim.land", claim);
    span.set("db.system.name", "mysql");
    span
}

fn hop(name: &'static str, claim: &Claim) -> Span {
    trace::follow(name, Kind::Client, claim.trace_parent.as_deref())
}
