//! `coupon`: templates, stock, users, repairs and dead letters from a terminal.
//! `docs/operator-cli.md` shows it.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    operator_cli::run().await
}
