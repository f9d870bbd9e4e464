//! Reads HTTP requests and the template topic. Writes MySQL, through the Redis gate.
//! Owns admissions until they have landed.

use std::{process::ExitCode, time::Duration};

use api::{Config, migrate, serve};

#[tokio::main]
async fn main() -> ExitCode {
    let config: Config = runtime::parse();
    if config.migrate {
        return migrate(&config).await;
    }
    let mut process = config.process.clone();
    process.leave = Duration::from_secs(config.drain_seconds);
    runtime::run("api", &process, |context| serve(config, context)).await
}
