//! `verify`: checks the invariants on a running platform, one line each. It changes nothing.
//! Exit code 0: all hold; 1: one is broken, or could not be checked.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]
#![expect(clippy::print_stderr, reason = "and fails on standard error")]

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use clap::Parser;
use runtime::Clock;
use verifier::{History, Report, Settings, Sources, settled, verify};

/// Checks the invariants of DESIGN §10 on a running platform.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    /// The clients' answers, a JSON record a line: what I4 and I5 need.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// How long to wait for the platform to be at rest before looking.
    #[arg(long, default_value_t = 10)]
    settle_seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(report) => {
            println!("{report}");
            if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("verify: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<Report> {
    let history = cli.history.as_deref().map(History::read).transpose()?;
    let sources = Sources::connect(&cli.settings).await.context("no platform to verify")?;
    let clock = Clock::system();
    if let Err(unrest) = settled(&sources, &clock, Duration::from_secs(cli.settle_seconds)).await {
        eprintln!("verify: {unrest}; looking all the same");
    }
    Ok(verify(&sources, history.as_ref(), clock.now()).await?)
}
