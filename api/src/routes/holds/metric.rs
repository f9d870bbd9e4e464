//! Counts confirmations and cancellations.

use crate::{code::Code, metrics::HOLD_CALLS, problem::Problem};

/// Counts a call by what became of it.
pub(super) fn count<T>(call: &'static str, ended: &Result<(T, bool), Problem>) {
    let outcome = match ended {
        Ok((_, true)) => "replayed",
        Ok((_, false)) => "done",
        Err(problem) if problem.code() == Code::HoldLapsed => "late",
        Err(problem) if problem.code().status() == 409 => "refused",
        Err(_) => "unsure",
    };
    metrics::counter!(HOLD_CALLS.name, "call" => call, "outcome" => outcome).increment(1);
}
