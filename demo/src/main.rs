//! `demo`: a flash sale end to end on private servers, and a report of it. Exit code 0: every
//! promise was kept; 1: one was broken, or the demo could not run.
#![expect(clippy::print_stderr, reason = "a command fails on standard error")]

mod after;
mod holds;
mod progress;
mod report;
mod sale;
mod stage;
mod watched;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use clap::Parser;
use devstack::Flavor;
use verifier::{History, at_rest, verify};

use crate::{
    progress::{ProgressLog, print},
    report::Figures,
    stage::Stage,
};

/// How long the platform may take to come to rest at the end.
const REST_MAX: Duration = Duration::from_secs(30);

/// Runs a flash sale on private servers (publish, claim, list, use, expire) and a drop whose coupons must be paid for
/// (hold, pay, lapse, sell again), then prints the figures and checks every invariant.
#[derive(Parser)]
struct Cli {
    /// Also writes the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Prints the console's address, and waits for Enter before the sale begins, and before the servers stop.
    #[arg(long)]
    watch: bool,
    /// The database server to use.
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("\nA promise was broken: see the lines above.");
            eprintln!("The logs are kept in {}.", stage::folder().display());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs both acts and returns whether every promise was kept.
async fn run(cli: Cli) -> Result<bool> {
    let progress = ProgressLog::start();
    progress.say(&format!("starting {}, two Redis, Kafka, and the six processes", cli.flavor));
    let mut stage = Stage::start(cli.flavor).await?;
    let template = sale::publish(&stage, &progress).await?;
    if cli.watch {
        watched::before_the_sale(&stage).await;
    }
    let sale = sale::hold(&stage, template, &progress).await?;
    let aftermath = after::live_on(&stage, &sale, &progress).await?;
    let dropped = holds::hold(&stage, &progress).await?;
    progress.say("waiting until everything is at rest, then checking every invariant");
    at_rest(&stage.sources, &stage.clock, REST_MAX).await?;
    let records = sale.run.history.records.iter().chain(&dropped.records).cloned().collect();
    let history = History { records };
    let report = verify(&stage.sources, Some(&history), stage.clock.now()).await?;
    let figures = Figures::of(&sale, &aftermath, &dropped, report.holds());
    print(format_args!("\n{figures}\n\n{report}\n"));
    if let Some(file) = &cli.json {
        let json = serde_json::to_string_pretty(&figures)?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let problems: Vec<_> = aftermath.problems.iter().chain(&dropped.problems).collect();
    for problem in &problems {
        print(format_args!("BROKEN  {problem}"));
    }
    let kept = figures.is_kept() && problems.is_empty();
    if cli.watch {
        watched::before_the_end().await;
    }
    stage.end(kept).await?;
    if kept {
        print(report::NEXT_STEPS);
    }
    Ok(kept)
}
