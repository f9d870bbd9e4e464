//! Error chains in one line.

use std::error::Error;

/// Returns the error and each of its causes, joined by `: `.
///
/// Use it wherever an error is logged: tracing's JSON formatter drops sources, and our errors do not print their cause
/// themselves.
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
