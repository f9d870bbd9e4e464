//! `./dev bench tailer`: the tailer on backlogs of a million bulk rows, of single-row transactions and of mixed updates, and when
//! idle, next to its peers and the libraries below it. Exit code 1: something failed.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    cdc::{
        broker::Broker,
        ceilings, drain,
        drain::Drained,
        idle,
        lineup::{DEBEZIUM, GO_MYSQL, Lineup, RUST_CONNECTOR, TAILER},
        load::{Load, Part},
        peers::ServerAccess,
    },
    report::{self, Machine, quantiles, row, write_json},
    stage::BareServers,
};
use anyhow::Result;
use clap::Args;
use devstack::Options;
use mysql_store::migrate;
use runtime::Clock;
use serde::Serialize;
use shopper::Latency;

/// Measures rows per second into Kafka, memory and delay, next to a hand-written tailer and Debezium Server.
#[derive(Args)]
pub struct Cli {
    /// Bulk rows, rounded up to a multiple of 10,000.
    #[arg(long, default_value_t = 1_000_000)]
    rows: i64,
    /// Transactions of a single row.
    #[arg(long, default_value_t = 200_000)]
    transactions: i64,
    /// Transactions of four updates, an insert, and a row of a table that is not followed.
    #[arg(long, default_value_t = 60_000)]
    mixed: i64,
    /// Single changes when idle.
    #[arg(long, default_value_t = 1_000)]
    changes: usize,
    /// Measured runs of our tailer and the fast peer per part, after two rounds that warm up the broker; the median run
    /// counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure without the peers.
    #[arg(long)]
    alone: bool,
}

/// Rounds that do not count: a JVM runs new code at half speed.
const WARM_UP: usize = 2;

/// Runs by contender and part.
type Runs = BTreeMap<&'static str, BTreeMap<&'static str, Vec<Drained>>>;

/// The main figures, all runs and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    tailer_rows_per_s: f64,
    tailer_txn_per_s: f64,
    /// The lower ratio of rows and transactions; absent if the peer is not available.
    tailer_over_go_mysql: Option<f64>,
    tailer_over_rust_connector: Option<f64>,
    tailer_over_debezium: Option<f64>,
    tailer_rss_mib: f64,
    tailer_idle_p50_ms: f64,
    tailer_idle_p99_ms: f64,
    decode_ceiling_per_s: BTreeMap<&'static str, f64>,
    produce_ceiling_per_s: f64,
    idle_ms: BTreeMap<&'static str, Quantiles>,
    runs: Runs,
    missing: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    p999: f64,
}

// One thread: child processes are tied to the thread that starts them.
/// State shared by all parts.
struct Setup {
    lineup: Lineup,
    load: Load,
    broker: Broker,
    broker_data: PathBuf,
    rounds: usize,
}

/// Runs it.
pub async fn run(cli: Cli, json: Option<&Path>) -> Result<()> {
    // The broker works for ten minutes and uses a third of the machine, so it runs optimised.
    let options = Options { kafka_optimised: true, ..Options::default() };
    let servers = BareServers::start_with(&options).await?;
    let machine = report::machine(&servers)?;
    let mut field = field(&servers, &cli).await?;
    let probe = ServerAccess::new(&servers.stack.endpoints(), &folder(&servers), "ceiling")?;

    let mut runs = Runs::new();
    let mut decoded = BTreeMap::new();
    field.load.set_durable(false).await?;
    let part = field.load.bulk(cli.rows).await?;
    decoded.insert(part.name, decode(&probe, &part)?);
    let produced = {
        field.drain(&part, &mut runs).await?;
        let from = &field.lineup.contenders[0].topic;
        let messages = usize::try_from(part.rows)?;
        ceilings::produce_per_s(&field.broker, from, messages).await?
    };
    row("  rdkafka alone, same messages", &format!("{produced:.0}/s"));
    let part = field.load.singles(cli.transactions).await?;
    decoded.insert(part.name, decode(&probe, &part)?);
    field.drain(&part, &mut runs).await?;
    let part = field.load.mixed(cli.mixed).await?;
    field.drain(&part, &mut runs).await?;
    field.load.set_durable(true).await?;
    let idle = field.idle(cli.changes).await?;
    for (name, reason) in &field.lineup.missing {
        row(name, &format!("not measured: {reason}"));
    }
    let missing = std::mem::take(&mut field.lineup.missing);
    drop(field);
    servers.end().await?;
    let figures = figures(machine, decoded, produced, idle, runs, missing);
    say_ratios(&figures);
    write_json(json, &figures)
}

fn folder(servers: &BareServers) -> PathBuf {
    servers.stack.dir().join("contenders")
}

async fn field(servers: &BareServers, cli: &Cli) -> Result<Setup> {
    let endpoints = servers.stack.endpoints();
    migrate::run(&endpoints.database_url).await?;
    let broker = Broker::connect(&endpoints.kafka_brokers)?;
    let mut load = Load::connect(&endpoints.database_url, Clock::system().now()).await?;
    let rounds = WARM_UP + cli.rounds;
    let mut lineup = Lineup::ours(&endpoints, &folder(servers), rounds)?;
    if !cli.alone {
        lineup.add_peers(&endpoints, &folder(servers), 0..rounds, WARM_UP)?;
    }
    lineup.seed(&mut load, &broker).await?;
    let broker_data = servers.stack.dir().join("kafka/data");
    Ok(Setup { lineup, load, broker, broker_data, rounds })
}

fn decode(access: &ServerAccess, part: &Part) -> Result<f64> {
    println!(
        "{}: {} rows in {} transactions, written in {:.1} s",
        part.name, part.rows, part.transactions, part.wrote_s
    );
    let per_s = ceilings::decode_per_s(access, part)?;
    row("  mysql_cdc alone", &format!("{per_s:.0} rows/s decoded"));
    Ok(per_s)
}

impl Setup {
    /// Lets each contender drain a part, round by round. A peer that fails is removed.
    async fn drain(&mut self, part: &Part, runs: &mut Runs) -> Result<()> {
        for round in 0..self.rounds {
            let mut remaining = Vec::new();
            for mut contender in std::mem::take(&mut self.lineup.contenders) {
                if contender.rounds.contains(&round) {
                    let run =
                        drain::measure(&mut contender, part, &self.broker, &self.broker_data).await;
                    let Some(drained) = self.lineup.unless_out(&contender, run)? else {
                        continue;
                    };
                    let counts = round >= WARM_UP;
                    say(contender.name, part, &drained, counts);
                    if counts {
                        let parts = runs.entry(contender.name).or_default();
                        parts.entry(part.name).or_default().push(drained);
                    }
                }
                remaining.push(contender);
            }
            self.lineup.contenders = remaining;
        }
        Ok(())
    }

    async fn idle(&mut self, changes: usize) -> Result<BTreeMap<&'static str, Latency>> {
        println!("idle: a commit's answer to its message in a consumer's hands");
        let mut idle = BTreeMap::new();
        for mut contender in std::mem::take(&mut self.lineup.contenders) {
            if contender.rounds.contains(&WARM_UP) {
                let run =
                    idle::measure(&mut contender, &mut self.load, &self.broker, changes).await;
                let Some(latency) = self.lineup.unless_out(&contender, run)? else {
                    continue;
                };
                row(&format!("  {}", contender.name), &quantiles(&latency));
                idle.insert(contender.name, latency);
            }
        }
        Ok(idle)
    }
}

fn say(name: &str, part: &Part, drained: &Drained, counts: bool) {
    let Drained { rows_per_s, txn_per_s, cpu_s, peak_rss_mib, bytes_per_row, .. } = drained;
    let transactions = match part.rows == part.transactions {
        true => String::new(),
        false => format!(" ({txn_per_s:.0} txn/s)"),
    };
    let warming = if counts { "" } else { " (warming up)" };
    let figure = format!(
        "{rows_per_s:.0} rows/s{transactions}, CPU {cpu_s:.1} s, peak {peak_rss_mib:.0} MiB, \
         {bytes_per_row:.0} bytes a row{warming}"
    );
    row(&format!("  {name}"), &figure);
}

fn figures(
    machine: Machine,
    decode_ceiling_per_s: BTreeMap<&'static str, f64>,
    produce_ceiling_per_s: f64,
    idle: BTreeMap<&'static str, Latency>,
    runs: Runs,
    missing: BTreeMap<&'static str, String>,
) -> Figures {
    let rate = |name: &str, part: &str| {
        let run = drain::median(runs.get(name)?.get(part)?.clone())?;
        Some(run.rows_per_s)
    };
    let over = |peer: &str| {
        let ratio = |part: &str| Some(rate(TAILER, part)? / rate(peer, part)?);
        Some(ratio("bulk")?.min(ratio("singles")?))
    };
    let ours = runs.get(TAILER).into_iter().flat_map(BTreeMap::values).flatten();
    let ms = |quantile| idle.get(TAILER).map_or(0.0, |latency| latency.ms(quantile));
    let quantiles = |latency: &Latency| Quantiles {
        p50: latency.ms(0.5),
        p99: latency.ms(0.99),
        p999: latency.ms(0.999),
    };
    Figures {
        machine,
        tailer_rows_per_s: rate(TAILER, "bulk").unwrap_or_default(),
        tailer_txn_per_s: rate(TAILER, "singles").unwrap_or_default(),
        tailer_over_go_mysql: over(GO_MYSQL),
        tailer_over_rust_connector: over(RUST_CONNECTOR),
        tailer_over_debezium: over(DEBEZIUM),
        tailer_rss_mib: ours.map(|run| run.peak_rss_mib).fold(0.0, f64::max),
        tailer_idle_p50_ms: ms(0.5),
        tailer_idle_p99_ms: ms(0.99),
        decode_ceiling_per_s,
        produce_ceiling_per_s,
        idle_ms: idle.iter().map(|(name, latency)| (*name, quantiles(latency))).collect(),
        runs,
        missing,
    }
}

fn say_ratios(figures: &Figures) {
    let rows = figures.tailer_rows_per_s;
    println!(
        "the run in the middle of each, the lower ratio of bulk rows and single transactions:"
    );
    let ours = format!("{rows:.0} rows/s, {:.0} txn/s", figures.tailer_txn_per_s);
    row("  cdc-tailer", &ours);
    for (name, ratio) in [
        (GO_MYSQL, figures.tailer_over_go_mysql),
        (RUST_CONNECTOR, figures.tailer_over_rust_connector),
        (DEBEZIUM, figures.tailer_over_debezium),
    ] {
        if let Some(ratio) = ratio {
            row(&format!("  over {name}"), &format!("{ratio:.2}"));
        }
    }
    row("  peak memory", &format!("{:.0} MiB in all runs", figures.tailer_rss_mib));
}
