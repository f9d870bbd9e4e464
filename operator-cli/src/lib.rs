//! The operator's command line. Each command is one call of the api (`api`), whose answer is printed as it came, or as
//! text. `watch` polls, `live` reads a stream, and dead letters are read from their topic.
//!
//! Architecture invariant: it has the api's rights and no others: no SQL, no Redis. The api records what it does on the
//! topic before it does it.

mod api;
mod arguments;
mod commands;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod output;
mod text;
mod topics;

use std::{
    env,
    ffi::{OsStr, OsString},
    process::ExitCode,
};

use clap::Parser as _;

use arguments::Arguments;
use failure::{Failure, Kind};
use output::Output;

/// Runs the command line. Exit codes: 0 done, 1 refused, 2 not a command that can be sent, 3 nothing answered or the
/// outcome is unknown, 4 the platform is not well, a sale is not ready, or a rehearsal broke a promise.
pub async fn run() -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return not_understood(&error, &words),
    };
    let output = Output { json: arguments.settings.json };
    match commands::run(arguments.command, &arguments.settings, &output).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure, &output),
    }
}

/// Handles a request for help, or a command line that cannot be understood. A script that asks for JSON gets a failure
/// like any other; otherwise clap's own text is printed, with its colours.
fn not_understood(error: &clap::Error, words: &[OsString]) -> ExitCode {
    if error.use_stderr() && asks_for_json(words) {
        return failed(&Failure::not_understood(error), &Output { json: true });
    }
    // If this cannot be printed, the exit code still says it.
    let _unread = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX))
}

/// Returns whether `--json` is among the words of a command line that could not be read as a whole. After `--` it is
/// not a flag.
fn asks_for_json(words: &[OsString]) -> bool {
    let is = |word: &OsString, text: &str| word.as_os_str() == OsStr::new(text);
    words.iter().take_while(|word| !is(word, "--")).any(|word| is(word, "--json"))
}

fn failed(failure: &Failure, output: &Output) -> ExitCode {
    // To a person the answer's first line has said it.
    if failure.kind != Kind::NotWell || output.json {
        output.fail(failure);
    }
    ExitCode::from(failure.kind.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_the_flag_and_not_by_a_word_behind_the_end_of_flags() {
        let asks = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            asks_for_json(&words)
        };
        assert!(asks("coupon --json template") && asks("coupon template show x --json"));
        assert!(!asks("coupon template show x") && !asks("coupon merchant create -- --json"));
    }
}
