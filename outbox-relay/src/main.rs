//! Reads queued claims from the gates' outboxes in Redis. Writes them to the topic of claims, and what cannot be published
//! to the dead letters. Owns the pending lists of the outboxes' consumer group, and the leases in MySQL that hold the
//! names of its workers.

use std::process::ExitCode;

use outbox_relay::Config;

#[tokio::main]
async fn main() -> ExitCode {
    let config: Config = runtime::parse();
    let process = config.process.clone();
    runtime::run("outbox-relay", &process, |context| async move {
        outbox_relay::run(&config, &context.health, context.stop_token()).await
    })
    .await
}
