//! `verify`: checks the invariants on a running platform and prints one line each. It changes
//! nothing. Exit code 0: none is broken; 1: one is, or a source could not be read.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]
#![expect(clippy::print_stderr, reason = "and fails on standard error")]

use std::{
    io,
    path::PathBuf,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Parser;
use runtime::Clock;
use tokio::signal::unix::{SignalKind, signal};
use verifier::{History, ProgressReporter, Report, Settings, Sources, at_rest, verify};

/// Interval between progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Checks the platform's invariants (docs/verify.md) while it runs.
#[derive(Parser)]
#[command(version = runtime::version())]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    /// The clients' answers, one JSON record per line; I4 and I5 need it.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Seconds to wait for the platform to be at rest before checking.
    #[arg(long, default_value_t = 10)]
    settle_seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli: Cli = runtime::parse();
    let sources = match connect(&cli.settings).await {
        Ok(sources) => sources,
        Err(error) => return failed(&error),
    };
    // The signal handlers must be installed before the first statement, which a signal must be able
    // to end.
    let looked = tokio::select! {
        biased;
        asked = asked_to_stop() => match asked {
            Ok(()) => return stop(&sources).await,
            Err(error) => Err(error.into()),
        },
        looked = run(&cli, &sources) => looked,
    };
    match looked {
        Ok(report) => {
            println!("{report}");
            if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("verify: {error:#}");
    ExitCode::FAILURE
}

/// Connects, and prints progress every few seconds.
async fn connect(settings: &Settings) -> Result<Sources> {
    let mut sources = Sources::connect(settings).await.context("no platform to verify")?;
    let printed_at = Mutex::new(Instant::now());
    sources.progress = ProgressReporter::to(move |what| {
        let mut printed_at = printed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if printed_at.elapsed() >= PROGRESS_EVERY {
            *printed_at = Instant::now();
            eprintln!("verify: {what}");
        }
    });
    Ok(sources)
}

async fn run(cli: &Cli, sources: &Sources) -> Result<Report> {
    let history = cli.history.as_deref().map(History::read).transpose()?;
    let clock = Clock::system();
    if let Err(unrest) = at_rest(sources, &clock, Duration::from_secs(cli.settle_seconds)).await {
        eprintln!("verify: {unrest}; looking all the same");
    }
    Ok(verify(sources, history.as_ref(), clock.now()).await?)
}

/// Returns on the first signal that asks the process to stop.
async fn asked_to_stop() -> io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
    }
}

/// Kills our statements, which MySQL would otherwise continue.
async fn stop(sources: &Sources) -> ExitCode {
    match sources.end_statements().await {
        Ok(()) => eprintln!("verify: stopped before the end"),
        Err(error) => {
            let error = runtime::report(&error);
            eprintln!("verify: MySQL may go on for some minutes: {error}");
        }
    }
    ExitCode::FAILURE
}
