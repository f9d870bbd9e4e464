//! `soak-alerts` (`./dev soak alerts`): makes the worry of each alert on real servers under a real Prometheus, and
//! waits for the alert. Exits with code 101 as soon as one does not fire.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use clap::{Parser, builder::PossibleValuesParser};
use pipeline_tests::alert_campaign;

/// Provokes the alerts of ops/alerts.yaml on servers of its own.
#[derive(Parser)]
struct Cli {
    /// Only these steps; all of them if none is named.
    #[arg(value_parser = PossibleValuesParser::new(alert_campaign::steps()))]
    steps: Vec<String>,
}

#[tokio::main]
async fn main() {
    let Cli { steps } = Cli::parse();
    let fired = alert_campaign::run(&steps, |line| println!("{line}")).await;
    println!("{fired} alerts fired");
}
