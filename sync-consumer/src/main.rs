//! Reads change events of coupons and movements. Writes the users' views and the gates' stock in Redis,
//! and the expiry wake-ups. Owns its groups' offsets.

use std::process::ExitCode;

use sync_consumer::Config;

#[tokio::main]
async fn main() -> ExitCode {
    let config: Config = runtime::parse();
    let process = config.process.clone();
    runtime::run("sync-consumer", &process, |context| async move {
        sync_consumer::run(&config, &context.clock, &context.health, context.stop_token()).await
    })
    .await
}
