//! Reads queued claims. Writes their coupons to MySQL, or the reason why there are none, and its progress to a topic.
//! Owns its group's offsets.

use std::process::ExitCode;

use claim_lander::Config;

#[tokio::main]
async fn main() -> ExitCode {
    let config: Config = runtime::parse();
    let process = config.process.clone();
    runtime::run("claim-lander", &process, |context| async move {
        let stop = context.stop_token();
        // Boxed because it holds the futures of all loops.
        Box::pin(claim_lander::run(&config, &context.clock, &context.health, stop)).await
    })
    .await
}
