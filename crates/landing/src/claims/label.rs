//! Metric labels of the gate's verdicts and of the decisions.

use coupon::Decision;
use redis_gate::{Refusal, Verdict};

use crate::lander::batch::Outcome;

/// Every label that [`verdict`] returns.
pub(crate) const VERDICTS: [&str; 13] = [
    "admitted",
    "replay",
    "key_reused",
    "not_loaded",
    "other_epoch",
    "too_old",
    "not_open",
    "paused",
    "closed",
    "ended",
    "limit",
    "sold_out",
    "insufficient",
];

/// Every label that [`decision`] returns.
pub(crate) const DECISIONS: [&str; 8] = [
    "landed",
    "landed_elsewhere",
    "fenced",
    "stale_epoch",
    "number_taken",
    "not_open",
    "short",
    "retry",
];

pub(super) fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Admitted { .. } => "admitted",
        Verdict::Replay { .. } => "replay",
        Verdict::KeyReused => "key_reused",
        Verdict::NotLoaded => "not_loaded",
        Verdict::OtherEpoch(_) => "other_epoch",
        Verdict::TooOld => "too_old",
        Verdict::Refused { refusal, .. } => match refusal {
            Refusal::NotOpen { .. } => "not_open",
            Refusal::Paused => "paused",
            Refusal::Closed => "closed",
            Refusal::Ended => "ended",
            Refusal::Limit { .. } => "limit",
            Refusal::SoldOut => "sold_out",
            Refusal::Insufficient { .. } => "insufficient",
        },
    }
}

/// Returns the label of a landing's outcome; without an outcome: `unknown`.
pub(super) fn landing(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Landed(_)) => "landed",
        Some(Outcome::Decided(decision)) => self::decision(*decision),
        Some(Outcome::Undecided) | None => "unknown",
    }
}

pub(super) fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Landed => "landed",
        Decision::LandedElsewhere => "landed_elsewhere",
        Decision::Fenced => "fenced",
        Decision::StaleEpoch { .. } => "stale_epoch",
        Decision::NumberTaken => "number_taken",
        Decision::NotOpen => "not_open",
        Decision::Short { .. } => "short",
        Decision::Retry => "retry",
    }
}
