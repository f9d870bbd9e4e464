//! Error chains as one line.

use std::error::Error;

/// The error and each of its causes, joined by `: `.
///
/// Tracing's JSON formatter drops sources, and our errors never print their cause themselves,
/// so whoever logs an error logs this.
pub fn report(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}
