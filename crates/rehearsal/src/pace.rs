//! How fast claims were answered, and the lines of a report.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use serde::Serialize;

use crate::Latency;

/// How fast claims were answered. The JSON names are part of the demo's contract.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pace {
    /// Claims answered per second, over the whole sale.
    pub claims_per_s: f64,
    /// Half of the answers came within this many milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 answers came within this many milliseconds.
    pub p99_ms: f64,
}

impl Pace {
    /// Sums up answers that came within `elapsed`.
    pub fn of(answered: &Latency, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
        Self {
            claims_per_s: rounded(answered.count() as f64 / seconds),
            p50_ms: rounded(answered.ms(0.5)),
            p99_ms: rounded(answered.ms(0.99)),
        }
    }

    /// Writes its lines of a report.
    ///
    /// # Errors
    /// The report cannot be written.
    pub fn rows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claims_per_s, p50_ms, p99_ms } = self;
        row(f, "claims answered a second", format_args!("{claims_per_s:.0}"))?;
        row(f, "answer p50 / p99", format_args!("{p50_ms:.1} / {p99_ms:.1} ms"))
    }
}

/// Writes a line of a report.
///
/// # Errors
/// The report cannot be written.
pub fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl Display) -> fmt::Result {
    writeln!(f, "  {name:<26} {value}")
}

/// Rounds to a tenth; the measurement is not more precise.
pub fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}
