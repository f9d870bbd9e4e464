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

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Bench::parse() {
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
    };
    exit_code("bench", done)
}
