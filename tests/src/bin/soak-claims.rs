//! `soak-claims` (`./dev soak claims`): the kill campaign with any number of rounds. Exits with code 101 and
//! the violated invariant as soon as a round fails.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use clap::Parser;
use devstack::Flavor;
use pipeline_tests::claim_campaign;

/// Kills and stops api, relay, lander, gate, its replica, broker and MySQL under claims in every mode, round after
/// round, and checks every invariant.
#[derive(Parser)]
struct Cli {
    /// Number of rounds with an admission in flight at the fault; others do not count.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Determines faults and moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Database server to use.
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
}

#[tokio::main]
async fn main() {
    let cli = Cli::parse();
    let totals =
        claim_campaign::run(cli.rounds, cli.seed, cli.flavor, |line| println!("{line}")).await;
    println!(
        "seed {}: {} rounds counted, {} did not (nothing was in flight), {} answers with 201, {} with 202, \
         {} held coupons paid for, {} polls that said something definite; at rest after {:.1} s at most; every invariant holds",
        cli.seed,
        totals.counted,
        totals.uncounted,
        totals.landed,
        totals.accepted,
        totals.paid,
        totals.polled,
        totals.rest_max.as_secs_f64(),
    );
}
