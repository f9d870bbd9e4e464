//! Error chains in one line.

use std::error::Error;

/// Returns the error and each of its causes, joined by `: `. Our errors do not print their cause, but those of several
/// libraries do: a cause with which the line already ends is not repeated.
///
/// Use it wherever an error is logged (`error = report(&error)`): tracing's JSON formatter drops sources.
pub fn report(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::io;

    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("the gate failed")]
    struct Ours(#[source] Library);

    #[derive(Debug, Error)]
    #[error("cannot connect: {0}")]
    struct Library(#[source] io::Error);

    #[test]
    fn each_cause_is_printed_once_though_a_library_prints_its_own() {
        let error = Ours(Library(io::Error::other("no route")));
        assert_eq!(report(&error), "the gate failed: cannot connect: no route");
    }
}
