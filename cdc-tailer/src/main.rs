//! Reads the binlog of MySQL or MariaDB. Writes change events to the topics. Owns the checkpoint.

use std::{
    io::{Write as _, stderr, stdout},
    process::ExitCode,
    time::Duration,
};

use cdc_tailer::Config;

/// How soon freed memory goes back to the system. Large transactions come in bursts: with the allocator's default of a
/// second the peak was 63 to 67 MiB; with this it was 51 to 59 MiB at the same speed (docs/decisions/0062).
const MEMORY_BACK_AFTER: Duration = Duration::from_millis(5);

fn main() -> ExitCode {
    cdc_tailer::give_memory_back_after(MEMORY_BACK_AFTER);
    tail()
}

#[tokio::main]
async fn tail() -> ExitCode {
    let config: Config = runtime::parse();
    if config.print_position {
        return print_position(&config).await;
    }
    let process = config.process.clone();
    runtime::run("cdc-tailer", &process, |context| async move {
        let part = context.health.part("binlog");
        context.spawn("servers", cdc_tailer::watch(&config, &context));
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
