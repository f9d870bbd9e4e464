//! `soak-failover` (`./dev soak failover`): the failover campaign with any number of rounds. Exits with code 101 and the
//! broken promise as soon as a round fails.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use clap::Parser;
use devstack::Flavor;
use pipeline_tests::failover::campaign;

/// Ends a primary of MySQL under claims and promotes its replica, round after round, and checks every promise.
#[derive(Parser)]
struct Cli {
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Determines kinds of replication and what is lost.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Database server to use.
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
}

#[tokio::main]
async fn main() {
    let cli = Cli::parse();
    let totals = campaign::run(cli.rounds, cli.seed, cli.flavor, |line| println!("{line}")).await;
    println!(
        "seed {}: {} rounds, {} answers with 201, {} with 202; {} lost by an asynchronous failover, each named and sold \
         again; no promise is broken",
        cli.seed, totals.rounds, totals.answered, totals.accepted, totals.lost
    );
}
