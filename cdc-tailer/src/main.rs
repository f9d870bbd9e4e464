//! Reads the binlog of MySQL or MariaDB. Writes change events to the topics. Owns the checkpoint.

use std::process::ExitCode;

use cdc_tailer::Config;
use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    let config = Config::parse();
    let process = config.process.clone();
    runtime::run("cdc-tailer", &process, |context| async move {
        let part = context.health.part("binlog");
        cdc_tailer::run(&config, &context.clock, &part, context.stop_token()).await
    })
    .await
}
