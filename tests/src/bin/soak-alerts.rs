//! `soak-alerts` (`./dev soak alerts`): makes each worry that can be made in minutes, on real servers under a real
//! Prometheus, and waits for its alert. Exits with code 101 as soon as one does not fire.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use clap::Parser;
use pipeline_tests::alert_campaign;

/// Provokes the alerts of ops/alerts.yaml on servers of its own.
#[derive(Parser)]
struct Cli {}

#[tokio::main]
async fn main() {
    let Cli {} = Cli::parse();
    let fired = alert_campaign::run(|line| println!("{line}")).await;
    println!("{fired} alerts fired");
}
