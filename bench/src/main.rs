//! `bench` (`./dev bench NAME`): figures beside baselines. Exit code 1: something failed, or an invariant is broken
//! afterwards.

use std::process::ExitCode;

use bench::{
    report::exit_code,
    scenarios::{
        claims, curves, expiry, export, grants, holds, mixed, overload, queued, redeem, smoke,
        tailer, view,
    },
};
use clap::Parser;
use tokio::runtime::Builder;

/// Measures figures beside baselines.
#[derive(Parser)]
#[command(name = "bench")]
enum Bench {
    Claims(claims::Cli),
    Curves(curves::Cli),
    Expiry(expiry::Cli),
    Export(export::Cli),
    Grants(grants::Cli),
    Holds(holds::Cli),
    Mixed(mixed::Cli),
    Overload(overload::Cli),
    Queued(queued::Cli),
    Redeem(redeem::Cli),
    Smoke(smoke::Cli),
    Tailer(tailer::Cli),
    View(view::Cli),
}

fn main() -> ExitCode {
    let bench = Bench::parse();
    // The tailer's peers get the cores that its bench does not need.
    let mut runtime = match bench {
        Bench::Tailer(_) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let done = runtime.enable_all().build().map_err(Into::into);
    exit_code("bench", done.and_then(|runtime| runtime.block_on(run(bench))))
}

async fn run(bench: Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Claims(cli) => claims::run(cli).await,
        Bench::Curves(cli) => curves::run(&cli),
        Bench::Expiry(cli) => expiry::run(cli).await,
        Bench::Export(cli) => export::run(cli).await,
        Bench::Grants(cli) => grants::run(cli).await,
        Bench::Holds(cli) => holds::run(cli).await,
        Bench::Mixed(cli) => mixed::run(cli).await,
        Bench::Overload(cli) => overload::run(cli).await,
        Bench::Queued(cli) => queued::run(cli).await,
        Bench::Redeem(cli) => redeem::run(cli).await,
        Bench::Smoke(cli) => smoke::run(cli).await,
        Bench::Tailer(cli) => tailer::run(cli).await,
        Bench::View(cli) => view::run(cli).await,
    }
}
