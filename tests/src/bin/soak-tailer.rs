//! `soak-tailer` (`./dev soak tailer`): the tailer's kill campaign with any number of rounds. Exits with code
//! 101 and the differences as soon as topics and server differ.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

use std::fs;

use clap::Parser;
use devstack::{Flavor, Options, Servers, TestServers, project_root};
use pipeline_tests::tail_campaign;

/// Kills and stops tailers under load, round after round, and compares the topics with the server's own binlog
/// reader.
#[derive(Parser)]
struct Cli {
    /// Number of rounds.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Determines faults and moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Database server to follow.
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
}

#[tokio::main]
async fn main() {
    let cli = Cli::parse();
    let dir = project_root().join(format!(".dev/soak-tailer-{}-{}", cli.flavor.name(), cli.seed));
    drop(fs::remove_dir_all(&dir));
    let options = Options { flavor: cli.flavor, ..Options::default() };
    let mut servers = Servers::start(&dir, &options).await.unwrap();
    let scope = TestServers::private(&servers).scope("soaktailer");
    println!("seed {}, {} rounds on {}", cli.seed, cli.rounds, cli.flavor.name());
    let broker = &mut servers.kafka;
    let database = &mut servers.database;
    let say = |line| println!("{line}");
    let totals = tail_campaign::run(scope, broker, database, cli.rounds, cli.seed, say).await;
    println!("seed {}: {} rounds, {totals}", cli.seed, cli.rounds);
    servers.stop().await.unwrap();
    fs::remove_dir_all(&dir).unwrap();
}
