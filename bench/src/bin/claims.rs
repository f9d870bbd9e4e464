//! `claims`: what a claim costs, process by process, and how fast claims are landed and refused. Exit code 1: something failed,
//! or an invariant is broken afterwards.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use bench::{
    claims::{
        arrivals, hot,
        refusals::{self, Refused},
        reopen, thin,
    },
    cpu::{CROWD, Cpu},
    report::{self, Machine, conclude, exit_code, quantiles, row},
    stage::{BareServers, Stage},
};
use clap::{Parser, Subcommand};
use runtime::Clock;
use serde::Serialize;

/// Claims whose rate and CPU time are measured, each of a user of its own.
const CLAIMS: i64 = 120_000;

/// Shares of the capacity at which answers are timed, and how long at each.
const LOADS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
const AT_EACH: Duration = Duration::from_secs(15);

/// Processes behind the binlog, which a claim's answer does not wait for.
const BEHIND: [&str; 5] = ["kafka", "redis-view", "cdc-tailer", "sync-consumer", "expiry-worker"];

/// Measures landed claims per second, their CPU time by process, their answers' times, and refusals.
#[derive(Parser)]
struct Cli {
    /// Also writes the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the bare route that refusals are measured beside.
    #[command(hide = true)]
    Bare(refusals::Options),
}

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    thin_1_per_s: f64,
    thin_per_s: f64,
    landed_per_s: f64,
    landed_over_thin: f64,
    cpu_us_per_claim: f64,
    cpu_us_behind: f64,
    /// By process; `crowd` is in no sum.
    cpu_us: BTreeMap<String, f64>,
    loads: Vec<Load>,
    refused_per_s: f64,
    bare_per_s: f64,
    refusal_over_bare: f64,
    /// From the request that added coupons to an api's first 201, while it refused from memory.
    reopened_p50_ms: f64,
    reopened_max_ms: f64,
}

/// The answers at one rate.
#[derive(Serialize)]
struct Load {
    of_capacity: f64,
    claims_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { json, command } = Cli::parse();
    let done = match command {
        Some(Command::Bare(options)) => refusals::serve(options).await,
        None => run(json).await,
    };
    exit_code("claims", done)
}

async fn run(json: Option<PathBuf>) -> Result<()> {
    let servers = BareServers::start().await?;
    let machine = report::machine(&servers)?;
    let [thin_1_per_s, thin_per_s] = thin_rates(&servers).await?;
    let mut stage = servers.platform().await?;
    let (hot, cpu_us) = landed(&servers, &mut stage).await?;
    let landed_over_thin = hot.landed_per_s / thin_per_s;
    let landed = format!("{:.0}/s over HTTP, {landed_over_thin:.1} × thin", hot.landed_per_s);
    row("claims landed, one template", &landed);
    row("  answered", &quantiles(&hot.run.answered));
    let sum = |of: &dyn Fn(&str) -> bool| -> f64 {
        cpu_us.iter().filter(|(name, _)| of(name)).map(|(_, us)| us).sum()
    };
    let (product, behind) = (sum(&|name| name != CROWD), sum(&|name| BEHIND.contains(&name)));
    row("CPU per claim", &format!("{product:.0} µs, {behind:.0} of them behind the binlog"));
    for (name, us) in &cpu_us {
        row(&format!("  {name}"), &format!("{us:.1} µs"));
    }
    let mut loads = Vec::new();
    for of_capacity in LOADS {
        loads.push(at_load(&stage, of_capacity, hot.landed_per_s).await?);
    }
    let Refused { per_s: refused_per_s, bare_per_s } = refusals::measure(&stage).await?;
    let refusal_over_bare = refused_per_s / bare_per_s;
    row(
        "refused, sold out",
        &format!("{refused_per_s:.0}/s, {refusal_over_bare:.2} of a bare route"),
    );

    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    let [reopened_p50_ms, reopened_max_ms] = reopened(&servers).await?;
    servers.end().await?;
    let figures = Figures {
        machine,
        thin_1_per_s,
        thin_per_s,
        landed_per_s: hot.landed_per_s,
        landed_over_thin,
        cpu_us_per_claim: product,
        cpu_us_behind: behind,
        cpu_us,
        loads,
        refused_per_s,
        bare_per_s,
        refusal_over_bare,
        reopened_p50_ms,
        reopened_max_ms,
    };
    conclude(json.as_deref(), &figures, &invariants)
}

/// Median and maximum of the time after which added coupons are given out, of apis that refuse from memory.
async fn reopened(servers: &BareServers) -> Result<[f64; 2]> {
    let mut stage = servers.platform_of(reopen::APIS).await?;
    let found = reopen::measure(&stage).await?;
    let times = [0.5, 1.0].map(|part| found.after.ms(part));
    let share = 100.0 * found.from_memory;
    let [p50, max] = times;
    row("reopened, two apis", &format!("p50 {p50:.0}, max {max:.0} ms; {share:.0} % from memory"));
    stage.at_rest().await?;
    stage.platform.stop().await?;
    Ok(times)
}

/// Thin transactions per second by one connection, and by as many as are best.
async fn thin_rates(servers: &BareServers) -> Result<[f64; 2]> {
    let mut rates = [0.0; 2];
    for (rate, connections) in rates.iter_mut().zip([1, thin::CONNECTIONS]) {
        let url = servers.stack.endpoints().url_of_database(&format!("thin{connections}"));
        *rate = thin::per_second_by(&url, connections, Clock::system().now()).await?;
        let name = format!("thin, {connections} connections");
        row(&name, &format!("{rate:.0}/s, one claim each"));
    }
    Ok(rates)
}

/// Sells a template out, and returns the CPU time by process of its claims until everything behind them is at rest.
async fn landed(
    servers: &BareServers,
    stage: &mut Stage,
) -> Result<(hot::Hot, BTreeMap<String, f64>)> {
    let template = hot::warm_up(stage, None, CLAIMS).await?;
    stage.at_rest().await?;
    let before = Cpu::read(servers, stage)?;
    let hot = hot::sell(stage, template, CLAIMS).await?;
    stage.at_rest().await?;
    let after = Cpu::read(servers, stage)?;
    Ok((hot, after.per_claim(&before, CLAIMS)))
}

async fn at_load(stage: &Stage, of_capacity: f64, capacity: f64) -> Result<Load> {
    let claims_per_s = of_capacity * capacity;
    let answered = arrivals::at_rate(stage, claims_per_s, AT_EACH).await?;
    stage.at_rest().await?;
    let [p50_ms, p99_ms, p999_ms, max_ms] = [0.5, 0.99, 0.999, 1.0].map(|part| answered.ms(part));
    let name = format!("answered at {:.0} %", of_capacity * 100.0);
    let times = format!("p50 {p50_ms:.1}, p99 {p99_ms:.1}, p99.9 {p999_ms:.1}, max {max_ms:.1} ms");
    row(&name, &format!("{times} at {claims_per_s:.0}/s"));
    Ok(Load { of_capacity, claims_per_s, p50_ms, p99_ms, p999_ms, max_ms })
}
