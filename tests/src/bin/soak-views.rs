//! `soak-views` (`./dev soak views`): the campaign against views with any number of rounds. Exits with code 101
//! and the violated invariant as soon as a round fails.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use clap::Parser;
use devstack::Flavor;
use pipeline_tests::view_campaign;

/// Damages views, delivers their changes doubled and shuffled, kills and stops every process, and checks every
/// invariant.
#[derive(Parser)]
struct Cli {
    /// Number of rounds; nine rounds hit each process once.
    #[arg(long, default_value_t = 45)]
    rounds: u32,
    /// Determines faults, moments and damages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Database server to use.
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
}

#[tokio::main]
async fn main() {
    let Cli { rounds, seed, flavor } = Cli::parse();
    println!("seed {seed}, {rounds} rounds on {}", flavor.name());
    let totals = view_campaign::run(rounds, seed, flavor, |line| println!("{line}")).await;
    println!(
        "seed {seed}: {rounds} rounds on {}, {} faults of processes ({} ended the tailer), {} damages of views (by kind {:?}), {} messages \
         delivered again, {} claims landed, {} uses and returns, {} lists read; every invariant holds",
        flavor.name(),
        totals.faults,
        totals.restarts,
        totals.damages,
        totals.kinds,
        totals.replayed,
        totals.landed,
        totals.uses,
        totals.lists,
    );
}
