//! Metric labels of the gate's verdicts, of calls that got none, and of the decisions. The tables in `metric.rs` list each of them.

use coupon::Decision;
use redis_gate::{GateError, Refusal, Verdict};

use crate::batch::Outcome;

pub(super) fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Admitted { .. } => "admitted",
        Verdict::Queued { .. } => "queued",
        Verdict::OutboxFull => "outbox_full",
        Verdict::TooManyQueued => "too_many_queued",
        Verdict::LookFirst => "look_first",
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
            Refusal::Banned { .. } => "banned",
        },
    }
}

/// Returns why a call of the gate has no verdict.
pub(super) fn gate_error(error: &GateError) -> &'static str {
    match error {
        GateError::Unknown { .. } => "unknown",
        GateError::Unreachable { .. } => "unreachable",
        GateError::Refused { .. } => "refused",
        GateError::Unfit(_) => "unfit",
        GateError::Unreadable { .. } => "unreadable",
    }
}

/// Returns the label of a landing's outcome; without an outcome: `unknown`.
pub(super) fn landing(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Landed(_)) => "landed",
        Some(Outcome::Decided(decision)) => self::decision(decision),
        Some(Outcome::Undecided) | None => "unknown",
    }
}

pub(super) fn decision(decision: &Decision) -> &'static str {
    match decision {
        Decision::Landed => "landed",
        Decision::Elsewhere => "landed_elsewhere",
        Decision::Rejected => "rejected",
        Decision::Fenced => "fenced",
        Decision::StaleEpoch { .. } => "stale_epoch",
        Decision::NumberTaken { .. } => "number_taken",
        Decision::NotOpen(_) => "not_open",
        Decision::Short { .. } => "short",
        Decision::Retry => "retry",
    }
}
