//! The operator's command line. Each command is one call of the api (`api`), whose answer is printed as
//! it came, or as text; `watch` looks again and again, and dead letters are read from their topic.
//!
//! Architecture invariant: it has the api's rights and no others. No SQL, no Redis.

mod api;
mod arguments;
mod call;
mod commands;
mod dead_letter;
mod failure;
mod keys;
mod letter;
mod output;
mod template_file;
mod text;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::Arguments;
use output::Output;

/// Does what the command line asks for. Exit codes: 0 done, 1 refused, 2 not a command that can be sent, 3
/// nobody answered, or what became of it is unknown.
pub async fn run() -> ExitCode {
    // What cannot be understood ends here, with clap's sentence and exit code 2.
    let arguments = Arguments::parse();
    let output = Output { json: arguments.settings.json };
    match commands::run(arguments.command, &arguments.settings, &output).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.fail(&failure);
            ExitCode::from(failure.kind.exit_code())
        }
    }
}
