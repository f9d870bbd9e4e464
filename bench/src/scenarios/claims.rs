//! `./dev bench claims`: what a claim costs, process by process, and how fast claims are landed and refused. Exit code 1: something failed,
//! or an invariant is broken afterwards.

use std::{collections::BTreeMap, path::Path, time::Duration};

use crate::{
    claims::{
        arrivals,
        coalescing::{Batches, Coalesced},
        gate, hot,
        refusals::{self, Refused},
        reopen,
        spread::{self, Spread},
        steady::{self, Steady},
        thin,
    },
    machine::cpu::{CROWD, Cpu},
    machine::memory::Memory,
    report::{self, Machine, conclude, quantiles, row},
    stage::{BareServers, Stage},
};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use runtime::Clock;
use serde::Serialize;

/// Claims whose rate and CPU time are measured, each of a user of its own.
const CLAIMS: i64 = 120_000;

/// Claims before them: close to a minute, after which the broker's JVM has compiled what it runs, and every buffer has its
/// size.
const WARM_UP: i64 = 160_000;

/// Shares of the capacity at which answers are timed, and how long at each.
const LOADS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
const AT_EACH: Duration = Duration::from_secs(15);

/// The share of the steady load.
const STEADY: f64 = 0.5;

/// Processes behind the binlog, which a claim's answer does not wait for.
const BEHIND: [&str; 5] = ["kafka", "redis-view", "cdc-tailer", "sync-consumer", "expiry-worker"];

/// Measures landed claims per second, their CPU time by process, their answers' times, memory under a steady load, the
/// gate, and refusals.
#[derive(Args)]
pub struct Cli {
    /// Length of the steady load. Memory that grows slowly shows in ten minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 1)]
    steady_minutes: u64,
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
    gate: GateRates,
    landed_per_s: f64,
    landed_over_thin: f64,
    landed_in_transaction: Coalesced,
    cpu_us_per_claim: f64,
    cpu_us_behind: f64,
    /// By process; `crowd` is in no sum.
    cpu_us: BTreeMap<String, f64>,
    loads: Vec<Load>,
    steady: Steady,
    refused_per_s: f64,
    bare_per_s: f64,
    refusal_over_bare: f64,
    spread: Spread,
    /// From the request that added coupons to an api's first 201, while it refused from memory.
    reopened_p50_ms: f64,
    reopened_max_ms: f64,
}

/// Admissions per second by the product's client, and by redis-benchmark.
#[derive(Serialize)]
struct GateRates {
    client_per_s: f64,
    redis_benchmark_per_s: f64,
    redis_benchmark_pipelined_per_s: f64,
    client_over_redis_benchmark: f64,
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

/// Runs it.
pub async fn run(cli: Cli, json: Option<&Path>) -> Result<()> {
    match cli.command {
        Some(Command::Bare(options)) => refusals::serve(options).await,
        None => measure(json, cli.steady_minutes).await,
    }
}

async fn measure(json: Option<&Path>, steady_minutes: u64) -> Result<()> {
    let servers = BareServers::start_for_minutes().await?;
    let machine = report::machine(&servers)?;
    let [thin_1_per_s, thin_per_s] = thin_rates(&servers).await?;
    let gate = gate(&servers).await?;
    let mut stage = servers.platform().await?;
    let Landed { hot, cpu_us, coalesced } = landed(&servers, &mut stage).await?;
    let landed_per_s = hot.landed_per_s;
    let landed_over_thin = landed_per_s / thin_per_s;
    let landed = format!("{landed_per_s:.0}/s over HTTP, {landed_over_thin:.1} × thin");
    row("claims landed, one template", &landed);
    row("  answered", &quantiles(&hot.run.answered));
    let Coalesced { mean, p50_up_to, p99_up_to, .. } = &coalesced;
    let of = format!("{mean:.1} on average, p50 up to {p50_up_to}, p99 up to {p99_up_to}");
    row("  in a transaction", &of);
    let sum = |of: &dyn Fn(&str) -> bool| -> f64 {
        cpu_us.iter().filter(|(name, _)| of(name)).map(|(_, us)| us).sum()
    };
    let product = sum(&|name| name != CROWD);
    let behind = sum(&|name| BEHIND.contains(&name));
    row("CPU per claim", &format!("{product:.0} µs, {behind:.0} of them behind the binlog"));
    for (name, us) in &cpu_us {
        row(&format!("  {name}"), &format!("{us:.1} µs"));
    }
    let mut loads = Vec::new();
    for of_capacity in LOADS {
        loads.push(at_load(&stage, of_capacity, landed_per_s).await?);
    }
    let steady = steady(&servers, &mut stage, STEADY * landed_per_s, steady_minutes).await?;
    let Refused { per_s: refused_per_s, bare_per_s } = refusals::measure(&stage).await?;
    let refusal_over_bare = refused_per_s / bare_per_s;
    row(
        "refused, sold out",
        &format!("{refused_per_s:.0}/s, {refusal_over_bare:.2} of a bare route"),
    );
    // Last, because a thousand published templates cause work in an api as long as they exist.
    let spread = spread(&stage).await?;

    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    let [reopened_p50_ms, reopened_max_ms] = reopened(&servers).await?;
    servers.end().await?;
    let figures = Figures {
        machine,
        thin_1_per_s,
        thin_per_s,
        gate,
        landed_per_s,
        landed_over_thin,
        landed_in_transaction: coalesced,
        cpu_us_per_claim: product,
        cpu_us_behind: behind,
        cpu_us,
        loads,
        steady,
        refused_per_s,
        bare_per_s,
        refusal_over_bare,
        spread,
        reopened_p50_ms,
        reopened_max_ms,
    };
    conclude(json, &figures, &invariants)
}

/// Median and maximum of the time until apis that refuse from memory give out added coupons.
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

/// Thin transactions per second over one connection, and over [`thin::CONNECTIONS`].
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

/// Admissions at the gate alone. Fails unless redis-benchmark's claims were admitted too.
async fn gate(servers: &BareServers) -> Result<GateRates> {
    let beside = gate::measure(servers).await?;
    let gate::Beside { client, by_default, pipelined } = beside;
    let ratio = beside.ratio();
    let rates = format!("{:.0}/s, {ratio:.2} of redis-benchmark's better rate", client.per_s);
    row("admitted by the gate", &rates);
    for (name, admitted) in
        [("our client", client), ("50 connections", by_default), ("pipelined", pipelined)]
    {
        let gate::Admitted { per_s, users } = admitted;
        row(&format!("  {name}"), &format!("{per_s:.0}/s, {users} users admitted"));
    }
    Ok(GateRates {
        client_per_s: client.per_s,
        redis_benchmark_per_s: by_default.per_s,
        redis_benchmark_pipelined_per_s: pipelined.per_s,
        client_over_redis_benchmark: ratio,
    })
}

/// A template that was sold out.
struct Landed {
    hot: hot::Hot,
    /// CPU time by process until everything behind the claims was at rest.
    cpu_us: BTreeMap<String, f64>,
    coalesced: Coalesced,
}

async fn landed(servers: &BareServers, stage: &mut Stage) -> Result<Landed> {
    let warm = hot::warm_up(stage, None, WARM_UP, CLAIMS).await?;
    stage.at_rest().await?;
    let batches = Batches::read(&stage.platform.apis[0]).await?;
    let before = Cpu::read(servers, stage)?;
    let hot = hot::sell(stage, warm, CLAIMS).await?;
    stage.at_rest().await?;
    let after = Cpu::read(servers, stage)?;
    let batches_after = Batches::read(&stage.platform.apis[0]).await?;
    let coalesced = batches_after.since(&batches).context("the api counted no transaction")?;
    Ok(Landed { hot, cpu_us: after.per_claim(&before, CLAIMS), coalesced })
}

async fn spread(stage: &Stage) -> Result<Spread> {
    let spread = spread::measure(stage).await?;
    let Spread { templates, one_per_s, uniform_per_s, zipf_per_s, .. } = spread;
    row(&format!("one of {templates} templates"), &format!("{one_per_s:.0}/s landed"));
    for (name, per_s, over_one) in [
        ("  all, equally likely", uniform_per_s, spread.uniform_over_one),
        ("  all, by Zipf's law", zipf_per_s, spread.zipf_over_one),
    ] {
        row(name, &format!("{per_s:.0}/s, {over_one:.2} of one template's"));
    }
    Ok(spread)
}

async fn steady(
    servers: &BareServers,
    stage: &mut Stage,
    claims_per_s: f64,
    minutes: u64,
) -> Result<Steady> {
    let steady = steady::measure(servers, stage, claims_per_s, minutes).await?;
    let Steady { p50_ms, p99_ms, p999_ms, max_ms, listed_after_ms, at_rest_after_ms, .. } = steady;
    let times = format!("p50 {p50_ms:.1}, p99 {p99_ms:.1}, p99.9 {p999_ms:.1}, max {max_ms:.1} ms");
    row(&format!("steady for {minutes} min"), &format!("{times} at {claims_per_s:.0}/s"));
    let behind = format!(
        "{listed_after_ms:.0} ms after the last 201, at rest {at_rest_after_ms:.0} ms after it"
    );
    row("  last coupon listed", &behind);
    for (name, memory) in &steady.memory {
        let Memory { first_minute_mib, last_mib, peak_mib } = memory;
        let mib = format!(
            "{first_minute_mib:.1} MiB in the first minute, {last_mib:.1} at the end, peak {peak_mib:.1}"
        );
        row(&format!("  {name}"), &mib);
    }
    Ok(steady)
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
