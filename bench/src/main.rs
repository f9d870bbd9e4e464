//! `bench` (`./dev bench NAME`): figures beside baselines. Exit code 1: something failed, or an invariant is broken
//! afterwards.

use std::{path::PathBuf, process::ExitCode};

use anyhow::bail;
use bench::{
    report::exit_code,
    scenarios::{
        capacity, claims, curves, expiry, export, grants, holds, mixed, overload, queued, redeem,
        smoke, tailer, view,
    },
};
use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

/// Measures figures beside baselines.
#[derive(Parser)]
#[command(name = "bench")]
struct Cli {
    /// Also writes the figures to this file, as JSON.
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Measures the CPU time of a claim by part, and prints what ten thousand, a hundred thousand and a million claims a
    /// second need.
    Capacity,
    Claims(claims::Cli),
    Curves(curves::Cli),
    Expiry(expiry::Cli),
    /// Measures exports of a million coupons.
    Export,
    /// Measures a job of ten thousand grants, and claims beside it.
    Grants,
    Holds(holds::Cli),
    Mixed(mixed::Cli),
    Overload(overload::Cli),
    /// Measures accepted and landed claims per second, the time of a 202 at half load, a backlog's drain and its
    /// estimates, the relay by its workers, and the memory of waiting clients.
    Queued,
    /// Measures landed claims per second, and redemptions per second: one transaction each, with its audit line.
    Redeem,
    /// Measures landed claims per second next to thin transactions, commit to visible, and the tailer's rows per second.
    Smoke,
    Tailer(tailer::Cli),
    View(view::Cli),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The tailer's peers get the cores that its bench does not need.
    let mut runtime = match cli.bench {
        Bench::Tailer(_) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let done = runtime.enable_all().build().map_err(Into::into);
    exit_code("bench", done.and_then(|runtime| runtime.block_on(run(cli))))
}

async fn run(Cli { json, bench }: Cli) -> anyhow::Result<()> {
    let json = json.as_deref();
    match bench {
        Bench::Capacity => capacity::run(json).await,
        Bench::Claims(cli) => claims::run(cli, json).await,
        Bench::Curves(_) if json.is_some() => bail!("curves has no figures to write"),
        Bench::Curves(cli) => curves::run(&cli),
        Bench::Expiry(cli) => expiry::run(cli, json).await,
        Bench::Export => export::run(json).await,
        Bench::Grants => grants::run(json).await,
        Bench::Holds(cli) => holds::run(cli, json).await,
        Bench::Mixed(cli) => mixed::run(cli, json).await,
        Bench::Overload(cli) => overload::run(cli, json).await,
        Bench::Queued => queued::run(json).await,
        Bench::Redeem => redeem::run(json).await,
        Bench::Smoke => smoke::run(json).await,
        Bench::Tailer(cli) => tailer::run(cli, json).await,
        Bench::View(cli) => view::run(cli, json).await,
    }
}
