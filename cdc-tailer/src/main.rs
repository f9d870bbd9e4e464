//! Reads the binlog of MySQL or MariaDB. Writes change events to the topics. Owns the checkpoint.

use std::{
    io::{Write as _, stderr, stdout},
    process::ExitCode,
};

use cdc_tailer::Config;

#[tokio::main]
async fn main() -> ExitCode {
    let config: Config = runtime::parse();
    if config.print_position {
        return print_position(&config).await;
    }
    let process = config.process.clone();
    runtime::run("cdc-tailer", &process, |context| async move {
        let part = context.health.part("binlog");
        cdc_tailer::run(&config, &context.clock, &part, context.stop_token()).await
    })
    .await
}

async fn print_position(config: &Config) -> ExitCode {
    let (printed, code) = match cdc_tailer::position(config).await {
        Ok(Some(position)) => (writeln!(stdout(), "{position}"), ExitCode::SUCCESS),
        Ok(None) => (writeln!(stderr(), "there is no checkpoint"), ExitCode::FAILURE),
        Err(error) => (writeln!(stderr(), "{error:#}"), ExitCode::FAILURE),
    };
    printed.map_or(ExitCode::FAILURE, |()| code)
}
