//! The metric of confirmations and cancellations.

use runtime::metric::{Kind, Label, Metric};

use crate::{code::Code, problem::Problem};

/// What became of a call, in the metric.
pub(crate) const HOLD_CALLS: Metric = Metric {
    name: "api_hold_calls_total",
    kind: Kind::Counter,
    unit: "calls",
    labels: &[
        Label { name: "call", values: &["confirm", "cancel"] },
        Label { name: "outcome", values: &["done", "replayed", "late", "refused", "unsure"] },
    ],
    meaning: "confirmations and cancellations of claims that were found: `done` now; `replayed`: \
              done before; `late`: the hold had lapsed; `refused` for another reason; `unsure`: it \
              may be tried again",
    worry: Some("late confirmations: shops take payments for holds that have lapsed"),
};

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
