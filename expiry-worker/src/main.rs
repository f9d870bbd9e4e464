//! Reads expiry wake-ups and the deadline index in MySQL. Writes coupons from unused to expired, and the new validity of
//! coupons that follow their template. Owns the shards of its partitions, and no state that a restart could lose.

use std::process::ExitCode;

use expiry_worker::Config;

#[tokio::main]
async fn main() -> ExitCode {
    let config: Config = runtime::parse();
    let process = config.process.clone();
    runtime::run("expiry-worker", &process, |context| async move {
        expiry_worker::run(&config, &context.clock, &context.health, context.stop_token()).await
    })
    .await
}
