//! What a template's sale was: its time series and its report, from the statistics and from MySQL.

pub(crate) mod figures;
pub(crate) mod report;
pub(crate) mod span;
pub(crate) mod timeseries;

use crate::{code::Code, problem::Problem, stats::history::HistoryError};

/// The statistics cannot be read at the moment.
pub(crate) fn unavailable(error: &HistoryError) -> Problem {
    match error {
        HistoryError::Busy => {
            let detail = "Too many reports are being read. Send the request again.";
            Problem::new(Code::Overloaded, detail)
        }
        HistoryError::Topic(error) => {
            runtime::seldom!("statistics of claims cannot be read", runtime::report(error));
            let detail = "The statistics cannot be read at the moment. Send the request again.";
            Problem::new(Code::StatsUnavailable, detail)
        }
    }
}
